import { expect, it } from 'vitest';
import { Diagnoses } from './diagnosis.ts';
import { judgeQueue, judgeReplicas, type JudgedQueue } from './queue-findings.ts';

const idle: JudgedQueue = {
  controller: 'web',
  keys: { queued: 0, running: 0, timers: 2, failing: 0, backlog: 0, waiting: 0, dead: 0 },
  pauses: [],
  oldestDueMs: 0,
};

function judged(state: Partial<JudgedQueue>): string[] {
  const findings = new Diagnoses();
  judgeQueue(findings, { ...idle, ...state });
  return findings.all.map(({ level, text }) => `${level}: ${text.replace(/\d+ queued.* dead/, 'SIZES')}`);
}

it.each<[string, Partial<JudgedQueue>, string[]]>([
  ['idle', {}, ['ok: queue web: idle, SIZES']],
  ['busy', { keys: { ...idle.keys, queued: 9, running: 4 }, oldestDueMs: 60_000 }, ['ok: queue web: busy, SIZES']],
  [
    'with failing keys',
    { keys: { ...idle.keys, failing: 2 } },
    ['warning: queue web: failing, SIZES: levelhook queue list web shows them'],
  ],
  [
    'with dead letters',
    { keys: { ...idle.keys, dead: 2 } },
    ['warning: queue web: dead letters, SIZES: levelhook queue list web shows them'],
  ],
  [
    'paused',
    { pauses: [{ scope: 'controller', sinceMs: 1 }] },
    ['warning: queue web: paused, SIZES: levelhook queue resume web ends that'],
  ],
  [
    'paused with dead letters',
    {
      keys: { ...idle.keys, dead: 2 },
      pauses: [{ scope: 'controller', sinceMs: 1 }],
    },
    [
      'warning: queue web: dead letters, SIZES: levelhook queue list web shows them',
      'warning: queue web is paused: levelhook queue resume web ends that',
    ],
  ],
  [
    'paused in part',
    {
      pauses: [
        { scope: 'namespace/a', sinceMs: 1 },
        { scope: 'key/a/b', sinceMs: 1 },
        { scope: 'object/a/b', sinceMs: 1 },
        { scope: 'object/a/c', sinceMs: 1 },
      ],
    },
    [
      'ok: queue web: partly paused, SIZES',
      'warning: queue web is paused for 1 namespaces, 1 keys, and 2 objects by their annotation',
    ],
  ],
  [
    'after a loss',
    { pauses: [{ scope: 'recovery', sinceMs: 1 }] },
    ['warning: queue web: waits for recovery, SIZES: until runs without a record are over, which ends by itself'],
  ],
  [
    'that stands still',
    { oldestDueMs: 61_000 },
    ['ok: queue web: idle, SIZES', 'warning: queue web has a key that is due for 61 s: see whether a gateway runs'],
  ],
])('a queue %s', (_, state, expected) => {
  expect(judged(state)).toEqual(expected);
});

it('the gateways that are there, with role and version', () => {
  const findings = new Diagnoses();
  judgeReplicas(findings, []);
  expect(findings.all).toEqual([]);
  const times = { roleSinceMs: 1, startedMs: 1, seenMs: 1 };
  judgeReplicas(findings, [
    { id: 'a_1', name: 'a', role: 'leader', version: '1.2.3', ...times },
    { id: 'b_2', name: 'b', role: 'follower', version: '1.2.4', ...times },
  ]);
  expect(findings.all.map(({ level, text }) => `${level}: ${text}`)).toEqual([
    'ok: gateways that were heard of in the last 45 s: a (leader, 1.2.3), b (follower, 1.2.4)',
  ]);
});
