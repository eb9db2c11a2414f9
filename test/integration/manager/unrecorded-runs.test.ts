import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, inject, it } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import type { OtherRuns } from '../../../src/gateway/recovery/dispatch-lease.ts';
import { UnrecordedRuns } from '../../../src/gateway/recovery/unrecorded-runs.ts';
import { redisLocation, type RedisLocation } from '../../../src/ground/redis/redis-location.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { GatewayRuns } from '../../../src/gateway/controller/workqueue/records/own-runs.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { InstantClock } from '../../harness/test-clock.ts';

const TIMEOUT_MS = 900_000;
const CALLBACK_MS = 86_400_000;

let redis: Redis;
let location: RedisLocation;
/** Only the test moves it: a minute is none more on a machine that stands still. */
let clock: InstantClock;
/** The gateways with a claim in the Lease. */
let claims: Set<string>;
/** The next answer to a write of the Lease. */
let apiserver: Promise<void>;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

beforeEach(() => {
  location = redisLocation(redis, uniqueName('unrecorded'), 'c');
  clock = new InstantClock();
  claims = new Set();
  apiserver = Promise.resolve();
});

afterAll(() => redis.disconnect());

/** A gateway that has the queues `open` and, if it says so, `closed`. */
class Gateway {
  readonly runs = new GatewayRuns();
  readonly unrecorded: UnrecordedRuns;
  readonly id: string;

  constructor(id: string) {
    this.id = id;
    this.unrecorded = new UnrecordedRuns({
      runtime: { clock, logger: silentLogger },
      location,
      lease: {
        take: async () => {
          const nowMs = clock.now();
          const others: OtherRuns[] = [...claims]
            .filter((each) => each !== id)
            .map((each) => ({ gateway: each, beforeMs: nowMs }));
          claims.add(id);
          return { beforeMs: others.length === 0 ? 0 : nowMs, others };
        },
        release: async (beforeMs) => {
          if (beforeMs === 0) claims.delete(id);
        },
        forget: async (gone) => {
          await apiserver;
          gone.forEach((each) => claims.delete(each));
        },
      },
      thisGateway: { id, runs: this.runs },
    });
  }

  async meet(runId: string): Promise<void> {
    await this.unrecorded.recordProcess(runId);
    await this.unrecorded.announce(new Set(['open']));
  }

  /** Whether a queue's keys wait for runs that are not on record. */
  async waits(name: string, { hasQueue = true } = {}): Promise<boolean> {
    // An answer is good for a moment.
    clock.advance(1000);
    const queue = { record: { state: async () => ({ incarnation: hasQueue ? 'some' : undefined }) } };
    const end = await this.unrecorded.endOf({ name, queue, timeoutMs: TIMEOUT_MS, callbackMs: CALLBACK_MS });
    expect(end.endMs > clock.now()).toBe(end.callbackEndMs > clock.now());
    return end.endMs > clock.now();
  }
}

it('a gateway waits after a loss of Redis until the others have announced their runs', async () => {
  const [a, b] = [new Gateway('a'), new Gateway('b')];
  await a.meet('one');
  await b.meet('one');
  await a.meet('two');
  expect(await a.waits('open')).toBe(true);
  await b.meet('two');
  expect(await a.waits('open')).toBe(false);
});

it('a run of a queue that is closed holds up the keys of this queue alone', async () => {
  const [a, b] = [new Gateway('a'), new Gateway('b')];
  await a.meet('one');
  await b.meet('one');
  b.runs.of('closed').begin({ key: 'k', run: 1, incarnation: 'i', deadlineMs: clock.now() + 60_000 }, clock.now());
  await b.meet('two');
  await a.meet('two');
  expect([await a.waits('open'), await a.waits('closed')]).toEqual([false, true]);
  clock.advance(70_000);
  await b.unrecorded.announce(new Set(['open']));
  expect(await a.waits('closed')).toBe(false);
});

it('a gateway that was killed a minute before is not waited for, unless its Redis has lost all data', async () => {
  const [leader, killed] = [new Gateway('leader'), new Gateway('killed')];
  await leader.meet('one');
  await killed.meet('one');
  clock.advance(50_000);
  await leader.unrecorded.sweep();
  await leader.meet('two');
  expect(await leader.waits('open')).toBe(true);

  await killed.meet('two');
  clock.advance(70_000);
  await leader.unrecorded.sweep();
  await leader.meet('three');
  expect(await leader.waits('open')).toBe(false);
  await redis.del(location.registryKey);
  await leader.meet('four');
  expect(await leader.waits('open')).toBe(true);
});

it('a gateway that stops without runs of its own leaves no claim, whatever runs in other gateways', async () => {
  const [idle, busy] = [new Gateway('idle'), new Gateway('busy')];
  for (const each of [idle, busy]) await each.meet('one');
  await idle.unrecorded.recordControllers(['open'], 'replaced');
  const untilMs = clock.now() + TIMEOUT_MS;
  await redis.zadd(queueKeys(location, 'open').inFlight, untilMs, 'k');
  busy.runs.of('open').begin({ key: 'k', run: 1, incarnation: 'i', deadlineMs: untilMs }, clock.now());
  await idle.unrecorded.release();
  await busy.unrecorded.release();
  expect(claims).toEqual(new Set(['busy']));
});

it('what a gateway wrote of its controllers for a Redis that is gone does not make the next look damaged', async () => {
  const [late, leader] = [new Gateway('late'), new Gateway('leader')];
  await late.meet('one');
  await redis.del(location.registryKey);
  await leader.meet('two');
  await late.unrecorded.announce(new Set());
  // As ioredis does with a command that the old process had not answered.
  for (const removals of ['replaced', 'kept'] as const) {
    await expect(late.unrecorded.recordControllers(['open'], removals)).rejects.toThrow('another Redis process');
  }
  await late.meet('two');
  expect(await leader.waits('open', { hasQueue: false })).toBe(false);
  // The queue alone was lost of a controller that has run on this process.
  await leader.unrecorded.recordControllers(['open'], 'kept');
  expect(await leader.waits('open', { hasQueue: false })).toBe(true);
});

it('the record of a removal stays until the leader replaces it', async () => {
  const gateway = new Gateway('a');
  await gateway.meet('one');
  const field = 'controller:open';
  await redis.hset(location.registryKey, field, 'removed:1:2');
  await gateway.unrecorded.recordControllers(['open'], 'kept');
  expect(await redis.hget(location.registryKey, field)).toBe('removed:1:2');
  await gateway.unrecorded.recordControllers(['open'], 'replaced');
  expect(await redis.hget(location.registryKey, field)).toBe('1');
});

it('a gateway that stood still begins no run before it has announced itself again', async () => {
  const gateway = new Gateway('a');
  await gateway.meet('one');
  const runs = gateway.runs.of('open');
  clock.advance(20_000);
  expect(runs.mayBegin(clock.now())).toBe(true);
  clock.advance(20_000);
  expect(runs.mayBegin(clock.now())).toBe(false);
  await gateway.unrecorded.announce(new Set(['open']));
  expect(runs.mayBegin(clock.now())).toBe(true);
});

it('the claim of a gateway that was killed is forgotten when none of its runs can go on', async () => {
  const [leader, killed] = [new Gateway('leader'), new Gateway('killed')];
  await leader.meet('one');
  await killed.meet('one');
  clock.advance(70_000);
  await leader.unrecorded.sweep();
  expect(claims).toContain('killed');
  clock.advance(2 * CALLBACK_MS);
  // What the gateway dispatches with must not wait for the apiserver.
  let refuse = (_: Error): void => {};
  apiserver = new Promise((_, reject) => (refuse = reject));
  await leader.unrecorded.sweep();
  clock.advance(20_000);
  await leader.unrecorded.sweep();
  expect(claims).toContain('killed');
  refuse(new Error('the apiserver is away'));
  apiserver = Promise.resolve();
  await eventually(async () => {
    clock.advance(20_000);
    await leader.unrecorded.sweep();
    expect(claims).toEqual(new Set(['leader']));
    expect(await redis.hkeys(location.registryKey)).not.toContain('onRecord:killed');
  });
});
