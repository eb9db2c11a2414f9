import { expect, it } from 'vitest';
import type { ServedKey } from '../gateway/http/server/queue-api.ts';
import { explainKey } from './explain-text.ts';

const at = (seconds: number): number => Date.UTC(2026, 0, 1) + seconds * 1000;
const rest: ServedKey = {
  key: 'shop/web',
  state: 'at rest',
  queued: false,
  dirty: false,
  backlog: false,
  waits: [],
  pauses: [],
  failures: 0,
  reasons: [],
  history: [],
  controllerState: 'idle',
  problems: [],
};

it('says that nothing is known of an unknown key', () => {
  expect(explainKey('demo', rest, at(0))).toBe(`shop/web of controller demo

what happened:
  no run of this key is remembered

what it is doing:
  at rest

next run: none is planned: an event, a resync or a person can cause one
`);
});

it('has the stack and the log of the last run alone', () => {
  const run = (number: number) => ({
    outcome: 'failed' as const,
    key: 'shop/web',
    run: number,
    atMs: at(number),
    error: 'm',
    stack: `Error: m\n    at run-${number}.ts:1\u001b[1m`,
    log: [`+1 ms info line of ${number}`],
  });
  const text = explainKey('demo', { ...rest, state: 'failing', failures: 2, history: [run(9), run(8)] }, at(40));
  expect(text).toContain(`
    the stack of its error:
      Error: m
          at run-9.ts:1 [1m
    the last lines of its log:
      +1 ms info line of 9
`);
  expect(text).not.toContain('run-8.ts');
});

it('tells the runs in order, why and how they ended, what is waited for, and when the next run is', () => {
  const text = explainKey(
    'demo',
    {
      ...rest,
      state: 'failing',
      failures: 1,
      queuedAtMs: at(40),
      reasons: [{ type: 'manual', message: 'try' }],
      timerMs: at(65),
      waits: [{ reason: 'barrier', sinceMs: at(31), awaits: [{ kind: 'apps/v1/Deployment', resourceVersion: '77' }] }],
      history: [
        { outcome: 'failed', key: 'shop/web', run: 9, atMs: at(31), attempt: 2, tookMs: 40, error: 'a\u001b[31m\nb' },
        {
          outcome: 'requeue',
          key: 'shop/web',
          run: 8,
          atMs: at(10),
          attempt: 1,
          waitedMs: 3,
          heldMs: 2,
          tookMs: 25,
          gateway: 'levelhook-0',
          reasons: [{ type: 'updated', object: 'apps/v1/Deployment shop/web', resourceVersion: '70' }],
          wrote: { count: 3, first: [{ object: 'v1/Pod shop/p', deleted: true }] },
          barrier: true,
          nextMs: at(20),
        },
      ],
    },
    at(60),
  );
  expect(text).toBe(`shop/web of controller demo

what happened:
  2026-01-01T00:00:10.000Z  done, asked for another run  (run 8, waited 3 ms, 2 ms of it for the cache, took 25 ms, on levelhook-0)
    because updated apps/v1/Deployment shop/web at 70
    wrote v1/Pod shop/p (deleted) and 2 more
    the next run waits until the cache shows this
    to run again by 2026-01-01T00:00:20.000Z
  2026-01-01T00:00:31.000Z  failed: a [31m b  (run 9, attempt 2, took 40 ms)

what it is doing:
  failing
  added 2026-01-01T00:00:40.000Z, because manual "try"
  waits for the cache to show what the last run wrote (apps/v1/Deployment at 77), since 2026-01-01T00:00:31.000Z

next run: in 5 s, at 2026-01-01T00:01:05.000Z; an event may run it earlier
`);
});

it('names the pauses of a key with nothing to do, and who has set them', () => {
  const pauses = [
    { scope: 'object/shop/web', sinceMs: at(1) },
    { scope: 'key/shop/web', sinceMs: at(2) },
  ] as const;
  const text = explainKey('demo', { ...rest, state: 'paused', pauses }, at(60));
  expect(text).toContain(`what it is doing:
  paused
  paused since 2026-01-01T00:00:01.000Z: shop/web has the annotation levelhook.dev/paused
  paused since 2026-01-01T00:00:02.000Z: a person has paused the key shop/web
`);
  expect(explainKey('demo', { ...rest, state: 'paused', pauses, timerMs: at(61) }, at(60))).toContain(
    'next run: when its pause ends',
  );
});

it.each([
  [{ state: 'running' }, 'not before the run in flight ends'],
  [{ state: 'goes on', dirty: true }, 'after the run in flight, since the key was woken during it'],
  [{ state: 'paused', waits: [{ reason: 'paused', by: 'controller' }], timerMs: at(9) }, 'when its pause ends'],
  [{ state: 'ready' }, 'as soon as there is a free slot'],
  [{ state: 'low priority' }, 'when there is a free slot, after the keys that were added'],
  [{ state: 'dead letter' }, 'none: it is a dead letter until an event, a resync or a person'],
  // The next look at the barrier comes in milliseconds, and is no run.
  [{ state: 'waits for the cache', timerMs: at(1) }, 'as soon as the cache shows the writes of its last run'],
  [{ state: 'circuit open', queued: true }, 'as soon as the function can be reached'],
  [{ state: 'rate limit', waits: [{ reason: 'rate-limit', untilMs: at(9) }] }, 'in 9 s'],
] as const)('says when the next run is: %o', (state, next) => {
  expect(explainKey('demo', { ...rest, ...state }, at(0))).toContain(`next run: ${next}`);
});

it('names the problems of the controller, which may be why nothing happens', () => {
  const problems = ['v1/Pod cannot be watched: 403'];
  expect(explainKey('demo', { ...rest, problems }, at(0))).toContain(`what it is doing:
  at rest
  its controller has a problem: v1/Pod cannot be watched: 403
`);
});
