import { variableOf } from '../../../../ground/config/config.ts';
import { decodeObjectKey } from '../../../../core/index.ts';
import { PAUSED_ANNOTATION } from '../../../controller/handlers/paused.ts';
import { nextRun, objectText } from '../../../controller/workqueue/key-state.ts';
import { waitFor } from '../../../controller/workqueue/key-status.ts';
import type { KeyStatus, PastRun } from '../../../controller/workqueue/work-queue.ts';
import type { ReadingTime } from '../../cache-api/reading-time.ts';
import { actionForm } from '../components/form.ts';
import { objectPanel } from '../components/object.ts';
import { badge, empty, facts, panel } from '../components/panel.ts';
import { surroundingsPanels } from '../components/surroundings.ts';
import { outcomeBadge, outcomeTone, reasonList, wroteText } from '../components/runs.ts';
import type { ControllerAccess, ControllerSummary, ObjectStates, TreeObject } from '../data.ts';
import { healthOf } from '../health.ts';
import { type Content, html, type Html, plural } from '../html.ts';
import { crumbs, layout, type PageRequest } from '../page.ts';
import { quoted } from '../shell.ts';
import { formatDuration, type Times } from '../times.ts';
import { controllerActionUrl, controllerUrl, DASHBOARD_PATH, runUrl } from '../urls.ts';
import { shownState, waitText } from '../waits.ts';

/** One key: why it runs or does not, its history, its next run, its object, and the objects around it. */
export async function keyPage(
  page: PageRequest,
  controller: ControllerAccess,
  {
    key,
    runs,
    time,
  }: { readonly key: string; readonly runs: readonly PastRun[]; readonly time: Pick<ReadingTime, 'pace'> },
): Promise<Html> {
  const [summary, status, object, surroundings] = await Promise.all([
    controller.summary(),
    controller.status(page.visitor, key),
    controller.object(page.visitor, key),
    controller.around(page.visitor, key),
  ]);
  const { id } = summary;
  const state = shownState(status, page.times);
  const isKeptOut = status.object?.state === 'kept out';
  const { panel: objectNow, isCompared } = await objectPanel(object, { isKeptOut, pace: time.pace });
  const around = surroundings && surroundingsPanels(page, surroundings, here(summary, object, key));
  const happened = panel('What happened', timeline(page, id, { runs, failures: status.failures }));
  return layout(page, {
    title: `${key} · ${id}`,
    section: 'overview',
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH], [id, controllerUrl(id)])}
      <h1>${key} ${badge(state.tone, state.word)}</h1>
      ${summary.problems.map((problem) => html`<p class="notice bad">${problem}</p>`)}
      ${summary.isStarting && html`<p class="notice">Its controller: ${summary.remarks[0]}</p>`}
      ${panel('Now', html`<div class="body">${nowFacts(page, status)}</div>`, buttons(page, summary, status))}
      ${
        isCompared
          ? html`${happened} ${around} ${objectNow}`
          : html`<div class="columns">
              <div>${happened} ${around}</div>
              ${objectNow}
            </div>`
      }
      ${commandHelp(page, controller, { id, status })}
    `,
  });
}

/** The object of the key among the objects around it. */
function here({ kind, id }: ControllerSummary, states: ObjectStates, key: string): TreeObject {
  const object = states.kind === 'shown' ? (states.server ?? states.cached) : undefined;
  const health = object && healthOf(object);
  return { kind, key, view: undefined, health, note: undefined, controllers: [id], children: [] };
}

function nowFacts({ times }: PageRequest, status: KeyStatus): Html {
  const { running, dirty, pauses, failures, queuedAtMs, reasons } = status;
  const { word, why, wait: shown } = shownState(status, times);
  const waits = status.waits.filter(({ reason }) => reason !== 'paused' && reason !== shown?.reason);
  const next = nextRun(word, status);
  return facts([
    ['State', why],
    ['Object', status.object && objectText(status.object)],
    ['Run in flight', running && html`number ${running.run}, its time is over ${times.at(running.deadlineMs)}`],
    ['Touched since', dirty && 'yes: it runs once more after this run'],
    [
      'Waits also',
      waits.length > 0 &&
        html`<ul>
          ${waits.map((wait) => html`<li>${waitText(wait, times)}</li>`)}
        </ul>`,
    ],
    [
      'Paused',
      pauses.length > 0 &&
        html`<ul>
          ${pauses.map((pause) => html`<li>${waitText(waitFor(pause), times)}, since ${times.at(pause.sinceMs)}</li>`)}
        </ul>`,
    ],
    ['Next run', next.atMs === undefined ? next.text : html`${times.at(next.atMs)}: ${next.text}`],
    ['Asked for by', reasonList(reasons)],
    ['Failures in a row', String(failures)],
    ['Queued', queuedAtMs !== undefined && times.at(queuedAtMs)],
  ]);
}

function buttons(page: PageRequest, { id }: ControllerSummary, { key, deadSinceMs, pauses }: KeyStatus): Content {
  const fields = { key };
  const namespace = decodeObjectKey(key)?.namespace;
  const scope = `namespace/${namespace}`;
  const isDead = deadSinceMs !== undefined;
  const has = (wanted: string): boolean => pauses.some((each) => each.scope === wanted);
  return [
    isDead && actionForm(page, { action: controllerActionUrl(id, 'replay'), label: 'Replay', fields, tone: 'main' }),
    isDead &&
      actionForm(page, {
        action: controllerActionUrl(id, 'drop'),
        label: 'Drop',
        fields,
        tone: 'bad',
        question: 'The dead letter and its history are forgotten. The next change of the object runs the key again.',
      }),
    !isDead &&
      actionForm(page, {
        action: controllerActionUrl(id, 'reconcile'),
        label: 'Reconcile now',
        fields,
        tone: 'main',
      }),
    has(`key/${key}`)
      ? actionForm(page, {
          action: controllerActionUrl(id, 'resume'),
          label: 'Resume',
          fields: { scope: `key/${key}` },
          tone: 'main',
        })
      : actionForm(page, {
          action: controllerActionUrl(id, 'pause'),
          label: 'Pause',
          fields: { scope: `key/${key}` },
        }),
    has(scope) &&
      actionForm(page, {
        action: controllerActionUrl(id, 'resume'),
        label: `Resume namespace ${namespace}`,
        fields: { scope },
      }),
  ];
}

function timeline(
  { times }: PageRequest,
  controller: string,
  { runs, failures }: { readonly runs: readonly PastRun[]; readonly failures: number },
): Content {
  if (runs.length === 0) {
    return empty(
      `No run is on record: the history keeps the last runs of each controller, and of very many a second some, unless ${variableOf('historyRuns')} is 0.`,
    );
  }
  return html`<ol class="timeline">
      ${repeated(runs).map(
        ([run, ...same]) =>
          html`<li class="${outcomeTone(run.outcome)}">
            ${outcomeBadge(run.outcome)} ${same.length > 0 && html`<span class="strong">× ${same.length + 1}</span>`}
            ${times.at(run.atMs)}
            <span class="muted"
              ><a href="${runUrl(controller, { key: run.key, run: run.run })}">run ${run.run}</a
              >${runText(run)}${sinceText(same, times)}</span
            >
            ${run.error !== undefined && html`<span class="reason">${run.error}</span>`}
            ${runFacts({ ...run, reasons: same.at(-1)?.reasons ?? run.reasons ?? [] }, times)}
          </li>`,
      )}
    </ol>
    ${
      failures > runs.length &&
      html`<p class="empty">${plural(failures, 'failure')} in a row: the last ${runs.length} runs are on record.</p>`
    }`;
}

/**
 * The attempts of each series that have the same error, the newest first: ten equal retries tell no more than one. The
 * first attempt has the cause of the series.
 */
export function repeated(runs: readonly PastRun[]): [PastRun, ...PastRun[]][] {
  const groups: [PastRun, ...PastRun[]][] = [];
  for (const run of runs) {
    const group = groups.at(-1);
    const isSame = group && run.error !== undefined && group[0].error === run.error;
    if (isSame && group.at(-1)?.attempt !== 1) {
      group.push(run);
    } else groups.push([run]);
  }
  return groups;
}

/** @param same the runs that are not shown on their own, the newest first. */
function sinceText(same: readonly PastRun[], times: Times): Content {
  const oldest = same.at(-1);
  return oldest && html`, the first of them ${times.at(oldest.atMs)}`;
}

/** `, attempt 3, took 15 ms, after 2 s of waiting, on gateway-1`. */
function runText({ attempt, tookMs, waitedMs, heldMs, gateway }: PastRun): string {
  const parts = [
    attempt !== undefined && attempt > 1 && `attempt ${attempt}`,
    tookMs !== undefined && `took ${formatDuration(tookMs)}`,
    waitedMs !== undefined && `after ${formatDuration(waitedMs)} of waiting`,
    heldMs !== undefined && `of it ${formatDuration(heldMs)} for the cache`,
    gateway !== undefined && `on ${gateway}`,
  ];
  return parts
    .filter((part) => part !== undefined && part !== false)
    .map((part) => `, ${part}`)
    .join('');
}

function runFacts({ reasons, wrote, barrier, nextMs }: PastRun, times: Times): Html {
  return facts([
    ['Why', reasonList(reasons)],
    ['Wrote', wroteText(wrote)],
    ['Then', barrier && 'its next run waits until the cache shows these writes'],
    ['Next', nextMs !== undefined && nextMs > times.nowMs && times.at(nextMs)],
  ]);
}

/** The same as text; and the pause by annotation: the gateway may not write to the object, the visitor does. */
function commandHelp(
  { origin }: PageRequest,
  { description }: ControllerAccess,
  { id, status }: { readonly id: string; readonly status: KeyStatus },
): Html {
  const { key, pauses } = status;
  const isPaused = pauses.some(({ scope }) => scope === `object/${key}`);
  const { namespace, name = key } = decodeObjectKey(key) ?? {};
  const [group] = description.for.apiVersion.split('/');
  const kind = description.for.apiVersion.includes('/')
    ? `${description.for.kind.toLowerCase()}.${group}`
    : description.for.kind.toLowerCase();
  const value = isPaused ? `${PAUSED_ANNOTATION}-` : `${PAUSED_ANNOTATION}=true`;
  const command = [
    'kubectl annotate',
    ...(namespace === undefined ? [] : ['-n', quoted(namespace)]),
    quoted(kind),
    quoted(name),
    value,
  ].join(' ');
  return panel(
    'On the command line',
    html`<div class="body">
      <p class="muted">This page as text:</p>
      <pre class="command"><code>levelhook explain ${quoted(id)} ${quoted(key)} --gateway ${origin}</code></pre>
      <p class="muted">
        The button Pause holds until a person resumes the key, and the gateway alone knows of it. An annotation pauses
        the object as long as it has it, and everyone sees it in the cluster.
        ${isPaused ? 'Remove the annotation:' : 'Pause by annotation:'}
      </p>
      <pre class="command"><code>${command}</code></pre>
    </div>`,
  );
}
