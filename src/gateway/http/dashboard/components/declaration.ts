import { type Condition, formatKind } from '../../../../core/index.ts';
import type { QueueDescription } from '../../../../contract/index.ts';
import type { Predicate, WatchMap } from '../../../../contract/source.ts';
import { RUNNING } from '../../../registration/conditions.ts';
import type { RightsReview } from '../../../registration/rights-review.ts';
import type { ControllerAccess } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import type { PageRequest } from '../page.ts';
import { formatDuration } from '../times.ts';
import { badge, facts, panel, type Tone } from './panel.ts';
import { table } from './table.ts';
import { webhookPanel } from './webhook-panel.ts';

interface Source {
  readonly role: string;
  readonly kind: string;
  readonly leadsTo: string;
  readonly where: string;
  readonly predicate: Predicate | undefined;
}

/** The declaration of a controller: which changes wake which keys, the kinds that it may read, and its limits. */
export function declaration(page: PageRequest, controller: ControllerAccess): Html {
  const { description, url } = controller;
  return html`
    ${panel(
      'What wakes its keys',
      table('Sources', sourcesOf(controller), [
        { title: 'Kind', heading: true, cell: ({ kind }) => kind },
        { title: 'Role', cell: ({ role }) => role },
        { title: 'Leads to', look: 'text', cell: ({ leadsTo }) => leadsTo },
        { title: 'Of', look: 'text optional', cell: ({ where }) => where },
        {
          title: 'Only events that',
          look: 'text optional',
          cell: ({ predicate }) => (predicate ? html`<code>${predicateText(predicate)}</code>` : 'all'),
        },
      ]),
    )}
    ${panel('What its function may read', rightsTable(page, controller))} ${webhookPanel(page, controller)}
    <div class="columns">
      ${panel('Limits', html`<div class="body">${limits(description, url)}</div>`)} ${conditionPanel(page, controller)}
    </div>
  `;
}

/** Each kind with the namespaces, and the apiserver's last answer about the ServiceAccount's right to it. */
function rightsTable({ times }: PageRequest, controller: ControllerAccess): Html {
  const { origin, scope } = controller;
  const review = controller.rights();
  const reviewed =
    origin === 'configured'
      ? 'none: a configured function may read what the gateway caches for it'
      : review
        ? rightsText(review, times)
        : 'not reviewed by this gateway yet';
  return table('Rights', Object.entries(scope), [
    { title: 'Kind', heading: true, cell: ([kind]) => kind },
    { title: 'May', look: 'optional', cell: () => 'get, list, watch' },
    { title: 'In namespaces', look: 'text', cell: ([, allowed]) => (allowed === '*' ? 'all' : allowed.join(', ')) },
    { title: 'Last review', look: 'text', cell: () => reviewed },
  ]);
}

/** The apiserver's last answer about the rights of a ServiceAccount, and its time. */
export function rightsText({ result, atMs, message, failed }: RightsReview, times: PageRequest['times']): Html {
  return html`${badge(result === 'allowed' ? 'ok' : 'bad', result)} ${times.at(atMs)}
  ${message !== undefined && html`<span class="reason">${message}</span>`}
  ${failed && html`<span class="reason">asked again ${times.at(failed.atMs)}, without an answer: ${failed.error}</span>`}`;
}

function sourcesOf({ description }: ControllerAccess): Source[] {
  const { for: reconciled, owns, watches, reads } = description;
  const selector = reconciled.labelSelector && `, labels ${JSON.stringify(reconciled.labelSelector)}`;
  const where = ({ namespaces }: { readonly namespaces?: readonly string[] }): string =>
    namespaces ? `namespaces ${namespaces.join(', ')}` : 'all namespaces';
  return [
    {
      role: 'reconciled',
      kind: formatKind(reconciled),
      leadsTo: 'its own key',
      where: where(reconciled) + (selector ?? ''),
      predicate: reconciled.predicate,
    },
    ...owns.map((each) => ({
      role: 'owned',
      kind: formatKind(each),
      leadsTo: each.owner === 'any' ? 'each of its owners' : 'the owner that controls it',
      where: where(each),
      predicate: each.predicate,
    })),
    ...watches.map((each) => ({
      role: 'watched',
      kind: formatKind(each),
      leadsTo: mapText(each.map),
      where: where(each),
      predicate: each.predicate,
    })),
    ...reads.map((each) => ({
      role: 'read',
      kind: formatKind(each),
      leadsTo: 'no key',
      where: where(each),
      predicate: undefined,
    })),
  ];
}

function mapText(map: WatchMap): string {
  switch (map.by) {
    case 'index':
      return `objects that name it in the index ${map.index}`;
    case 'selector':
      return `objects whose selector at ${map.path} matches it${map.orphansOnly ? ', while nothing controls it' : ''}`;
    case 'owner':
      return map.owner === 'any' ? 'each of its owners' : 'the owner that controls it';
    case 'label':
      return `the object that its label ${map.label} names`;
    case 'annotation':
      return `the object that its annotation ${map.annotation} names`;
    case 'field':
      return `the object that its field ${map.path} names`;
    case 'related':
      return 'objects whose last run has named it';
    case 'all':
      return 'all objects';
    case 'cel':
      return `the objects of the expression ${map.expression}`;
  }
}

function predicateText(predicate: Predicate): string {
  if ('changed' in predicate) return `change the ${predicate.changed}`;
  if ('labelSelector' in predicate) return `match ${JSON.stringify(predicate.labelSelector)}`;
  if ('cel' in predicate) return predicate.cel;
  if ('not' in predicate) return `not (${predicateText(predicate.not)})`;
  const [parts, word] = 'all' in predicate ? [predicate.all, ' and '] : [predicate.any, ' or '];
  return parts.map((each) => `(${predicateText(each)})`).join(word);
}

function limits(description: ControllerAccess['description'], url: string): Html {
  const { concurrency, timeoutSeconds, maxBatch = 1, callbackSeconds, queue = {} } = description;
  const { maxAttempts, rateLimit, debounce } = queue;
  return facts([
    ['Function', html`<span class="mono">${url}</span>`],
    ['Runs at a time', concurrency],
    ['Time of a run', formatDuration(timeoutSeconds * 1000)],
    ['Keys in a trigger', `${maxBatch} at most`],
    ['Goes on after a 202', callbackSeconds !== undefined && `for ${formatDuration(callbackSeconds * 1000)} at most`],
    ['Attempts', maxAttempts === undefined ? 'no limit: a key that fails is tried for ever' : String(maxAttempts)],
    ['Rate limit', rateLimit ? `${rateLimit.perSecond} a second, ${rateLimit.burst} at once` : 'none'],
    ['Debounce', debounce ? debounceText(debounce) : 'none'],
  ]);
}

function debounceText({ seconds, maxSeconds, leading }: NonNullable<QueueDescription['debounce']>): string {
  const bounds = `${seconds} s, ${maxSeconds} s at most`;
  return leading ? `${bounds}, of a key that runs or has just written` : bounds;
}

/** Ready is True also while keys fail, so its colour depends on its reason. */
export function conditionTone({ type, status, reason }: Pick<Condition, 'type' | 'status' | 'reason'>): Tone {
  if (type === 'Paused') return status === 'True' ? 'warn' : 'neutral';
  if (type === 'Ready' && status === 'True' && reason !== RUNNING) return 'warn';
  return status === 'True' ? 'ok' : status === 'False' ? 'bad' : 'neutral';
}

function conditionPanel({ times }: PageRequest, controller: ControllerAccess): Content {
  const conditions = controller.conditions();
  if (conditions.length === 0) return undefined;
  return panel(
    'Conditions of the ReconcileFunction',
    table('Conditions', conditions, [
      { title: 'Condition', heading: true, cell: ({ type }) => type },
      {
        title: 'Status',
        look: 'text',
        cell: (each) =>
          html`${badge(conditionTone(each), each.status)} ${each.reason} <span class="reason">${each.message}</span>`,
      },
      { title: 'Since', look: 'optional', cell: ({ lastTransitionTime }) => times.of(lastTransitionTime) },
    ]),
  );
}
