import { decodeObjectKey } from '../../../core/index.ts';
import type { Reason } from '../../../contract/index.ts';
import { PAUSED_ANNOTATION } from '../../handlers/paused.ts';
import type { KeyStatus } from '../../workqueue/work-queue.ts';
import { actionForm } from '../components/form.ts';
import { objectPanel } from '../components/object.ts';
import { badge, empty, facts, panel } from '../components/panel.ts';
import type { ControllerAccess, ControllerSummary } from '../data.ts';
import { type Content, html, type Html, plural } from '../html.ts';
import { crumbs, layout, type Page } from '../page.ts';
import { controllerActionUrl, controllerUrl, DASHBOARD_PATH } from '../urls.ts';
import { keyState, waitText } from '../waits.ts';

/** One key: why it runs or does not, what has happened, what is next, and its object. */
export async function keyPage(page: Page, controller: ControllerAccess, key: string): Promise<Html> {
  const [summary, status, object] = await Promise.all([
    controller.summary(),
    controller.queue.status(key),
    controller.object(key),
  ]);
  const { id } = summary;
  const state = keyState(status, page.times);
  return layout(page, {
    title: `${key} · ${id}`,
    section: 'overview',
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH], [id, controllerUrl(id)])}
      <h1>${key} ${badge(state.tone, state.word)}</h1>
      ${panel('Now', html`<div class="body">${nowFacts(page, status)}</div>`, buttons(page, summary, status))}
      <div class="columns">
        ${panel('What happened', timeline(page, status))} ${panel('Why it runs next', reasons(status.reasons))}
      </div>
      ${objectPanel(object)} ${pauseHelp(controller, key, status)}
    `,
  });
}

function nowFacts({ times }: Page, status: KeyStatus): Html {
  const { running, dirty, queued, backlog, timerMs, waits, failures, deadSinceMs, queuedAtMs } = status;
  const { why } = keyState(status, times);
  const next =
    queued || backlog
      ? queued
        ? 'as soon as there is room'
        : 'when no other key is ready'
      : timerMs === undefined
        ? 'when something changes'
        : times.at(timerMs);
  return facts([
    ['State', why],
    ['Run in flight', running && html`number ${running.run}, its time is over ${times.at(running.deadlineMs)}`],
    ['Touched since', dirty && 'yes: it runs once more after this run'],
    [
      'Waits for',
      waits.length > 0 &&
        html`<ul>
          ${waits.map((wait) => html`<li>${waitText(wait, times)}</li>`)}
        </ul>`,
    ],
    ['Next run', deadSinceMs === undefined || queued || backlog ? next : 'by a change of the object, or Replay'],
    ['Failures in a row', String(failures)],
    ['Dead letter', deadSinceMs !== undefined && html`since ${times.at(deadSinceMs)}`],
    ['Queued', queuedAtMs !== undefined && times.at(queuedAtMs)],
  ]);
}

function buttons(page: Page, { id, pauses }: ControllerSummary, { key, deadSinceMs }: KeyStatus): Content {
  const fields = { key };
  const namespace = decodeObjectKey(key)?.namespace;
  const scope = `namespace/${namespace}`;
  const isDead = deadSinceMs !== undefined;
  const isPaused = pauses.some((each) => each.scope === scope);
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
    namespace !== undefined &&
      isPaused &&
      actionForm(page, {
        action: controllerActionUrl(id, 'resume'),
        label: `Resume namespace ${namespace}`,
        fields: { scope },
      }),
  ];
}

function timeline({ times }: Page, { history, failures }: KeyStatus): Content {
  if (history.length === 0) {
    return empty(
      'No failure is on record. A key in good health leaves no outcomes here: failures and the success after them stay for an hour.',
    );
  }
  return html`<ol class="timeline">
      ${history.map(
        ({ atMs, run, error }) =>
          html`<li class="${error === undefined ? 'ok' : 'bad'}">
            <span class="strong">${error === undefined ? 'succeeded' : 'failed'}</span> ${times.at(atMs)}
            <span class="muted">run ${run}</span> ${error !== undefined && html`<span class="reason">${error}</span>`}
          </li>`,
      )}
    </ol>
    ${
      failures > history.length &&
      html`<p class="empty">The last ${history.length} of ${plural(failures, 'failure')} in a row are on record.</p>`
    }`;
}

function reasons(list: readonly Reason[]): Content {
  if (list.length === 0) return empty('Nothing has asked for another run.');
  return html`<ul class="timeline">
    ${list.map((reason) => {
      const { type, ...more } = reason;
      return html`<li>
        <span class="strong">${type}</span>
        <span class="reason">${Object.entries(more).map(([name, value]) => `${name} ${textOf(value)} `)}</span>
      </li>`;
    })}
  </ul>`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The gateway may not write to objects that it watches: the visitor does, with kubectl. */
function pauseHelp({ description }: ControllerAccess, key: string, { waits }: KeyStatus): Html {
  const isPaused = waits.some((wait) => wait.reason === 'paused' && wait.by.startsWith('object/'));
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
    isPaused ? 'Resume this object' : 'Pause this object',
    html`<div class="body">
      <p class="muted">An object is paused by its annotation, so that the cluster shows it:</p>
      <pre class="command"><code>${command}</code></pre>
    </div>`,
  );
}

/** For a shell. */
function quoted(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
