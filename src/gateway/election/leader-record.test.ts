import { beforeEach, expect, it } from 'vitest';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { silentLogger } from '../../core/index.ts';
import type { Redis } from '../../ground/redis/redis.ts';
import { LeaderRecord, type LeaderRecordOptions } from './leader-record.ts';
import { LEADER_FIELD } from './registry-fields.ts';

const TIMING = { leaseMs: 15_000, retryMs: 2000 };

let clock: VirtualClock;
let registry: Map<string, string>;
let status: string;
/** The Lease as one process sees it. */
let election: { identity: string; leader: string; leads: boolean };
let lines: string[];
let record: LeaderRecord;

beforeEach(() => {
  clock = new VirtualClock();
  registry = new Map();
  status = 'ready';
  election = { identity: 'own', leader: '', leads: false };
  lines = [];
  const redis = {
    get status() {
      return status;
    },
    hget: async (_: string, field: string) => registry.get(field) ?? null,
    hset: async (_: string, field: string, value: string) => void registry.set(field, value),
  };
  const log = (_: object, message: string): void => void lines.push(message);
  record = new LeaderRecord({
    runtime: { clock, logger: { ...silentLogger, info: log, warn: log, error: log } },
    location: { redis: redis as unknown as Redis, registryKey: 'registry' },
    election: {
      name: 'foo/bar',
      identity: election.identity,
      isLeading: () => election.leads,
      get leader() {
        return election.leader;
      },
    } satisfies LeaderRecordOptions['election'],
    timing: TIMING,
  });
});

async function look(afterMs = 0): Promise<string | undefined> {
  clock.step(clock.now() + afterMs);
  await record.look();
  return record.reason;
}

it('the gateway that leads records its identity, and again where Redis has lost it', async () => {
  election.leads = true;
  await look();
  expect(registry.get(LEADER_FIELD)).toBe('own');
  registry.clear();
  await look();
  expect(registry.get(LEADER_FIELD)).toBe('own');
});

it('a follower is ready while the holder of the Lease is the one on record', async () => {
  election.leader = 'other';
  registry.set(LEADER_FIELD, 'other');
  expect(await look()).toBeUndefined();
  // Lost: that this holder leads is known.
  registry.clear();
  expect(await look(TIMING.leaseMs + 1)).toBeUndefined();
  expect(lines).toEqual([]);
});

it('a follower gives a new holder the duration of the Lease to record itself', async () => {
  registry.set(LEADER_FIELD, 'former');
  election.leader = 'next';
  expect(await look()).toBeUndefined();
  expect(await look(TIMING.leaseMs)).toBeUndefined();
  registry.set(LEADER_FIELD, 'next');
  expect(await look(TIMING.leaseMs)).toBeUndefined();
});

it('a follower says once that another deployment holds its Lease, with the remedy, until it leads itself', async () => {
  election.leader = 'of another';
  await look();
  const reason = await look(TIMING.leaseMs + 1);
  expect(reason).toContain('Lease foo/bar');
  expect(reason).toContain('LEVELHOOK_LEASE');
  // Another process of the same deployment.
  election.leader = 'second of another';
  expect(await look(1)).toBe(reason);
  expect(lines).toEqual(['no gateway leads this deployment']);
  election.leads = true;
  expect(await look(1)).toBeUndefined();
  expect(lines).toEqual(['no gateway leads this deployment', 'a gateway leads this deployment']);
});

it.each([
  ['Redis is away', () => (status = 'reconnecting')],
  ['the Lease has no holder', () => (election.leader = '')],
])('the time in which %s does not count', async (_, happens) => {
  election.leader = 'next';
  await look();
  happens();
  await look(TIMING.leaseMs);
  [status, election.leader] = ['ready', 'next'];
  expect(await look(TIMING.leaseMs)).toBeUndefined();
  registry.set(LEADER_FIELD, 'next');
  expect(await look()).toBeUndefined();
});
