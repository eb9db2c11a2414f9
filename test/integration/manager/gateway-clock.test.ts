import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { silentLogger, systemClock } from '../../../src/core/index.ts';
import { GatewayClock } from '../../../src/gateway/process/gateway-clock.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

let redis: Redis;
const registry = uniqueName('clock');

beforeAll(() => {
  redis = new Redis(inject('redisUrl'));
});

afterAll(async () => {
  await redis.del(registry);
  redis.disconnect();
});

it('a gateway that follows approaches the time of the one that leads, and its time never goes back', async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const machine = new ShiftedClock();
  const [leader, follower] = [new GatewayClock(), new GatewayClock(machine)];
  const leading = leader.keep(redis, registry, { logger: silentLogger, signal, leads: () => true });
  await eventually(async () => expect(await redis.hexists(registry, 'clock')).toBe(1));
  await follower.continueFrom(redis, registry, silentLogger);
  // As after weeks in which one quartz was faster.
  machine.advance(150);
  const following = follower.keep(redis, registry, { logger: silentLogger, signal, leads: () => false });
  let latest = follower.now();
  let wentBack = false;
  await eventually(async () => {
    const now = follower.now();
    wentBack ||= now < latest;
    latest = now;
    expect(Math.abs(now - leader.now())).toBeLessThan(50);
  });
  expect(wentBack).toBe(false);
  machine.advance(-150);
  await eventually(async () => expect(Math.abs(follower.now() - leader.now())).toBeLessThan(50));
  stop.abort();
  await Promise.all([leading, following]);
});

it('the clock of a gateway does not follow a record that is damaged', async () => {
  const stop = new AbortController();
  await redis.hset(registry, 'clock', 'yesterday');
  const clock = new GatewayClock();
  const following = clock.keep(redis, registry, { logger: silentLogger, signal: stop.signal, leads: () => false });
  await systemClock.sleep(1200);
  expect(Math.abs(clock.now() - systemClock.now())).toBeLessThan(1000);
  stop.abort();
  await following;
});
