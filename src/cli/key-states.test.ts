import { expect, it } from 'vitest';
import { explainKey } from './explain-text.ts';
import { shownState } from '../gateway/http/dashboard/waits.ts';
import { Times } from '../gateway/http/dashboard/times.ts';
import { KEY_STATES, keyState, objectText, type KeyStateWord } from '../gateway/controller/workqueue/key-state.ts';
import type { KeyStatus, WorkQueue } from '../gateway/controller/workqueue/work-queue.ts';
import { queueApi, type ServedKey } from '../gateway/http/server/queue-api.ts';

const NOW = Date.UTC(2026, 0, 1);
const rest: KeyStatus = {
  key: 'a/k',
  queued: false,
  dirty: false,
  backlog: false,
  waits: [],
  pauses: [],
  failures: 0,
  reasons: [],
};
const barrier = { reason: 'barrier', sinceMs: NOW - 1000, barrier: '{}' } as const;
const later = NOW + 30_000;

/** The status of a key, and the state that pages and commands must show. */
const ROWS: readonly (readonly [KeyStateWord, Partial<KeyStatus>])[] = [
  ['at rest', {}],
  ['ready', { queued: true }],
  ['running', { running: { run: 3, deadlineMs: later } }],
  ['running', { running: { run: 3, deadlineMs: later }, queued: true, dirty: true }],
  ['goes on', { running: { run: 3, deadlineMs: later }, waits: [{ reason: 'busy', untilMs: later }] }],
  ['low priority', { backlog: true }],
  ['requeued', { timerMs: later }],
  ['failing', { timerMs: later, failures: 2 }],
  // The run failed after a write, so the key waits for its next attempt.
  ['failing', { timerMs: later, failures: 1, waits: [barrier] }],
  ['requeued', { timerMs: later, waits: [barrier] }],
  ['waits for the cache', { timerMs: NOW + 10, failures: 1, waits: [barrier] }],
  ['waits for the cache', { queued: true, waits: [barrier] }],
  ['at rest', { object: { state: 'cached' } }],
  ['at rest', { object: { state: 'cached', dropped: { type: 'updated', resourceVersion: '7', by: 'all.0.changed' } } }],
  ['at rest', { object: { state: 'unknown', reason: 'the cache is not complete yet' } }],
  ['at rest', { object: { state: 'kept out', reason: 'it is nested more than 256 levels deep' } }],
  ['no object', { object: { state: 'absent' } }],
  ['not selected', { object: { state: 'not selected', by: 'predicate' } }],
  ['not selected', { object: { state: 'not selected', by: 'namespaces' } }],
  // The current activity takes precedence.
  ['running', { object: { state: 'absent' }, running: { run: 3, deadlineMs: later } }],
  ['requeued', { object: { state: 'not selected', by: 'labelSelector' }, timerMs: later }],
  ['dead letter', { object: { state: 'absent' }, deadSinceMs: NOW }],
  ['dead letter', { deadSinceMs: NOW, failures: 5 }],
  ['dead letter', { deadSinceMs: NOW, pauses: [{ scope: 'controller', sinceMs: NOW }] }],
  ['ready', { deadSinceMs: NOW, queued: true }],
  // Something has woken it.
  ['rate limit', { deadSinceMs: NOW, timerMs: later, waits: [{ reason: 'rate-limit', untilMs: later }] }],
  ['debounced', { deadSinceMs: NOW, waits: [{ reason: 'debounce', untilMs: later }] }],
  [
    'paused',
    { deadSinceMs: NOW, pauses: [{ scope: 'key/a/k', sinceMs: NOW }], waits: [{ reason: 'paused', by: 'key/a/k' }] },
  ],
  ['paused', { pauses: [{ scope: 'controller', sinceMs: NOW }] }],
  ['paused', { pauses: [{ scope: 'key/a/k', sinceMs: NOW }], timerMs: later, failures: 1, waits: [barrier] }],
  ['waits for recovery', { pauses: [{ scope: 'recovery', sinceMs: NOW }], queued: true }],
  ['debounced', { waits: [{ reason: 'debounce', untilMs: later }] }],
  ['rate limit', { queued: true, waits: [{ reason: 'rate-limit', untilMs: later }] }],
  ['circuit open', { queued: true, waits: [{ reason: 'breaker', untilMs: later }] }],
  ['function starts', { queued: true, waits: [{ reason: 'breaker', untilMs: later, isStarting: true }] }],
];

/** The answer of `GET /queues/web/keys/a/k` while Redis has this record and the cache this object. */
async function servedKey({ object, ...record }: KeyStatus): Promise<ServedKey> {
  const queue = {
    name: 'web',
    inspector: {
      status: async () => record,
      levels: async () => ({ sizes: {}, pauses: [], morePauses: 0, pausedObjects: 0 }),
    },
    history: { runsOf: async () => [] },
  } as unknown as WorkQueue;
  const app = queueApi({
    queues: () => new Map([['web', queue]]),
    controller: () =>
      object && {
        problems: [],
        remarks: [],
        isStarting: false,
        circuit: undefined,
        namespaced: true,
        objectOf: async () => object,
        requeue: async () => 0,
      },
    clock: { now: () => NOW },
  });
  return (await (await app.request('/web/keys/a/k')).json()) as ServedKey;
}

/** The states in which a key runs, or will as soon as there is room. No other state is green. */
const GREEN: readonly KeyStateWord[] = ['running', 'goes on', 'ready', 'low priority'];

it.each(ROWS)('a key is %s on its page, and in explain: %o', async (word, facts) => {
  const status = { ...rest, ...facts };
  expect(keyState(status, NOW).word).toBe(word);
  const shown = shownState(status, new Times(NOW, NOW));
  expect([shown.word, shown.tone === 'ok']).toEqual([word, GREEN.includes(word)]);
  const served = await servedKey(status);
  expect(served.state).toBe(word);
  expect(explainKey('demo', served, NOW)).toContain(`what it is doing:\n  ${word}\n`);
  if (!status.object) return;
  const about = objectText(status.object);
  expect(explainKey('demo', served, NOW)).toContain(`\n  ${about}\n`);
});

it('each state has a row', () => {
  expect(new Set(ROWS.map(([word]) => word))).toEqual(new Set(KEY_STATES));
});
