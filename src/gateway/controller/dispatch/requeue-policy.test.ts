import { describe, expect, it } from 'vitest';
import { keyBackoffMs } from '../workqueue/rate-limiter.ts';
import type { Outcome } from '../endpoint/outcome.ts';
import { decide, decideLost, type Decision } from './requeue-policy.ts';

const NOW = 1_700_000_000_000;
const FAILURES = Array.from({ length: 21 }, (_, at) => at);
const writes = [{ apiVersion: 'v1', kind: 'Pod', name: 'a', uid: 'u' }];

/** The decision about a key, for each kind of outcome: by the failures before it. */
const TABLE: [string, Outcome, (failures: number) => Decision][] = [
  ['done', { kind: 'done', writes }, () => ({ finish: { kind: 'ended', failures: 'forget' }, result: 'success' })],
  [
    'done, to be run again',
    { kind: 'done', requeueAfterMs: 1500, writes: [] },
    () => ({ finish: { kind: 'ended', failures: 'forget', againAfterMs: 1500 }, result: 'requeue_after' }),
  ],
  [
    'done, to be run again after no time, which asks for nothing as RequeueAfter 0 does',
    { kind: 'done', requeueAfterMs: 0, writes: [] },
    () => ({ finish: { kind: 'ended', failures: 'forget' }, result: 'success' }),
  ],
  [
    'an error',
    { kind: 'error', message: 'm', writes },
    (failures) => ({
      finish: { kind: 'ended', failures: 'count', againAfterMs: keyBackoffMs(failures + 1) },
      result: 'error',
    }),
  ],
  [
    'done, to be run again at once, which would spin',
    { kind: 'done', requeueAfterMs: 5e-321, writes: [] },
    () => ({ finish: { kind: 'ended', failures: 'forget', againAfterMs: 100 }, result: 'requeue_after' }),
  ],
  [
    'an error that names a time',
    { kind: 'error', message: 'm', retryAfterMs: 170, writes },
    () => ({ finish: { kind: 'ended', failures: 'count', againAfterMs: 170 }, result: 'error' }),
  ],
  [
    'an error that asks to be tried again at once, which would spin',
    { kind: 'error', message: 'm', retryAfterMs: 1e-6, writes },
    (failures) => ({
      finish: { kind: 'ended', failures: 'count', againAfterMs: Math.min(keyBackoffMs(failures + 1), 100) },
      result: 'error',
    }),
  ],
  [
    "an error that names no time but 0: the backoff's",
    { kind: 'error', message: 'm', retryAfterMs: 0, writes },
    (failures) => ({
      finish: { kind: 'ended', failures: 'count', againAfterMs: keyBackoffMs(failures + 1) },
      result: 'error',
    }),
  ],
  [
    'a terminal error',
    { kind: 'terminal', message: 'm', writes },
    () => ({ finish: { kind: 'ended', failures: 'keep', dead: true }, result: 'error' }),
  ],
  [
    'a refused connection',
    { kind: 'refused', message: 'm' },
    (failures) => ({
      finish: {
        kind: 'ended',
        failures: 'count',
        againAfterMs: Math.min(keyBackoffMs(failures + 1), 30_000),
        elsewhere: true,
      },
      result: 'error',
    }),
  ],
  [
    'no trigger was sent',
    { kind: 'not-sent', message: 'm', isThere: false },
    () => ({ finish: { kind: 'ended', failures: 'keep', againAfterMs: 0, sent: false }, result: undefined }),
  ],
  [
    'put off by the function',
    { kind: 'deferred', message: 'm', retryAfterMs: 3000 },
    () => ({ finish: { kind: 'ended', failures: 'keep', againAfterMs: 3000 }, result: 'requeue_after' }),
  ],
  [
    'that goes on',
    { kind: 'accepted', withinMs: 60_000 },
    () => ({ finish: { kind: 'accepted', untilMs: NOW + 60_000 }, result: undefined }),
  ],
  [
    'unknown',
    { kind: 'unknown', reason: 'timeout', message: 'm' },
    () => ({ finish: { kind: 'unknown' }, result: 'error' }),
  ],
];

describe.each(TABLE)('%s', (_name, outcome, expected) => {
  it.each(FAILURES)('after %d failures', (failures) => {
    expect(decide(outcome, failures, NOW)).toEqual(expected(failures));
  });
});

describe('a lost run', () => {
  it.each(FAILURES)('counts and backs off after %d failures', (failures) => {
    expect(decideLost(failures)).toEqual({
      kind: 'ended',
      failures: 'count',
      againAfterMs: keyBackoffMs(failures + 1),
    });
  });
});
