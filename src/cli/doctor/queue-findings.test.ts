import { describe, expect, it } from 'vitest';
import { systemClock } from '../../core/index.ts';
import { CONTROLLER_FIELD, REPLICA_FIELD } from '../../gateway/election/registry-fields.ts';
import type { Replica } from '../../gateway/election/replica-record.ts';
import { CLOCK_FIELD } from '../../gateway/process/gateway-clock.ts';
import type { Redis } from '../../ground/redis/redis.ts';
import { Diagnoses } from './diagnosis.ts';
import { checkQueues, judgeQueue, judgeReplicas, type JudgedQueue } from './queue-findings.ts';

const idle: JudgedQueue = {
  controller: 'web',
  sizes: { queued: 0, running: 0, timers: 2, failing: 0, backlog: 0, waiting: 0, dead: 0 },
  pauses: [],
  morePauses: 0,
  pausedObjects: 0,
  oldestDueMs: undefined,
};

function judged(state: Partial<JudgedQueue>): string[] {
  const findings = new Diagnoses();
  judgeQueue(findings, { ...idle, ...state });
  return findings.all.map(({ level, text }) => `${level}: ${text.replace(/\d+ queued.* dead/, 'SIZES')}`);
}

it.each<[string, Partial<JudgedQueue>, string[]]>([
  ['idle', {}, ['ok: queue web: idle, SIZES']],
  ['busy', { sizes: { ...idle.sizes, queued: 9, running: 4 }, oldestDueMs: 60_000 }, ['ok: queue web: busy, SIZES']],
  [
    'with failing keys',
    { sizes: { ...idle.sizes, failing: 2 } },
    ['warning: queue web: failing, SIZES: levelhook get keys web shows them'],
  ],
  [
    'with dead letters',
    { sizes: { ...idle.sizes, dead: 2 } },
    ['warning: queue web: dead letters, SIZES: levelhook get keys web shows them'],
  ],
  [
    'paused',
    { pauses: [{ scope: 'controller', sinceMs: 1 }] },
    ['warning: queue web: paused, SIZES: levelhook resume web ends that'],
  ],
  [
    'paused with dead letters',
    {
      sizes: { ...idle.sizes, dead: 2 },
      pauses: [{ scope: 'controller', sinceMs: 1 }],
    },
    [
      'warning: queue web: dead letters, SIZES: levelhook get keys web shows them',
      'warning: queue web is paused: levelhook resume web ends that',
    ],
  ],
  [
    'paused in part',
    {
      pauses: [
        { scope: 'namespace/a', sinceMs: 1 },
        { scope: 'key/a/b', sinceMs: 1 },
      ],
      morePauses: 7,
      pausedObjects: 2,
    },
    [
      'ok: queue web: partly paused, SIZES',
      'warning: queue web is paused for 1 namespaces, 1 keys, 7 further namespaces and keys, and 2 objects by their annotation',
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
  judgeReplicas(findings, [], []);
  expect(findings.all).toEqual([]);
  const times = { roleSinceMs: 1, startedMs: 1, seenMs: 1 };
  const replicas: Replica[] = [
    { id: 'a_1', name: 'a', role: 'leader', version: '1.2.3', ...times },
    { id: 'b_2', name: 'b', role: 'follower', version: '1.2.4', ...times },
  ];
  judgeReplicas(findings, replicas, ['web']);
  expect(findings.all.map(({ level, text }) => `${level}: ${text}`)).toEqual([
    'ok: gateways that were heard of in the last 45 s: a (leader, 1.2.3), b (follower, 1.2.4)',
  ]);
});

describe('the doctor, where a controller has a queue and', () => {
  const AHEAD_MS = 3_600_000;

  /** A Redis with one controller, whose first key has been due by the gateways' clock for this time. */
  function redisWith({ dueMs, replicas }: { dueMs: number; replicas: object[] }): Redis {
    // The gateways' clock is an hour ahead of this machine.
    const [nowMs, wallMs] = [systemClock.now() + AHEAD_MS, systemClock.wallNow()];
    const fields = replicas.map((replica, at) => [
      `${REPLICA_FIELD}${at}`,
      JSON.stringify({ name: 'a', role: 'leader', roleSinceMs: 1, startedMs: 1, version: '1', ...replica }),
    ]);
    const registry: Record<string, string> = {
      [CLOCK_FIELD]: `${nowMs} ${wallMs} ${wallMs}`,
      [`${CONTROLLER_FIELD}web`]: '1',
      ...Object.fromEntries(fields),
    };
    const redis = {
      time: async () => [Math.floor(wallMs / 1000), (wallMs % 1000) * 1000],
      hget: async (_: string, field: string) => registry[field] ?? null,
      hgetall: async () => registry,
      smembers: async () => [],
      defineCommand: () => {},
      // The answer of levels.lua: no key is in the list `queued`, one has a timer.
      levelhook_levels: async () => [[0, 0, 1, 0, 0, 0, 0], 0, 0, 1, String(nowMs - dueMs), '', 0, 0, '', []],
    };
    return redis as unknown as Redis;
  }

  async function found(state: Parameters<typeof redisWith>[0]): Promise<string[]> {
    const findings = new Diagnoses();
    await checkQueues(findings, redisWith(state), { keyPrefix: 'levelhook', clusterId: 'c' });
    return findings.all.filter(({ level }) => level !== 'ok').map(({ level, text }) => `${level}: ${text}`);
  }

  const SILENT = 'warning: no gateway was heard of in the last 45 s, so no function runs: start one';

  it.each<[string, Parameters<typeof redisWith>[0], unknown[]]>([
    ['no gateway has a record', { dueMs: 0, replicas: [] }, [SILENT]],
    ['the last record of a gateway is old', { dueMs: 0, replicas: [{ seenMs: systemClock.now() }] }, [SILENT]],
    ['a gateway was heard of', { dueMs: 0, replicas: [{ seenMs: systemClock.now() + AHEAD_MS }] }, []],
    [
      'a timer has run out by the clock of the gateways',
      { dueMs: 90_000, replicas: [] },
      [
        SILENT,
        expect.stringMatching(/^warning: queue web has a key that is due for 90 s: see whether a gateway runs$/),
      ],
    ],
  ])('%s', async (_, state, expected) => {
    expect(await found(state)).toEqual(expected);
  });
});
