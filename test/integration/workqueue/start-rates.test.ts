import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { GatewayRuns } from '../../../src/gateway/controller/workqueue/records/own-runs.ts';
import { type StartRate, StartRates } from '../../../src/gateway/controller/workqueue/worker/start-rates.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixtures: RedisQueueFixture[] = [];

afterEach(async () => {
  await Promise.all(fixtures.map((each) => each.close()));
  fixtures = [];
});

/** A queue of its own. */
async function openQueue(concurrency: number, starts: StartRate): Promise<BullMqWorkQueue> {
  const fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  fixtures.push(fixture);
  // Runs are held open, and none may be taken for lost.
  return fixture.open({ concurrency, timeoutMs: 120_000 }, { bounds: { starts } });
}

describe('keys of a tenant that are ready again and again', () => {
  it('start no faster than a tenant may, in all of its queues, and each of them runs', async () => {
    const rates = new StartRates(systemClock, new GatewayRuns());
    const process = new RecordingProcess();
    const queue = await openQueue(100, rates.of('tenant'));
    await queue.start(process);
    const keys = Array.from({ length: 4000 }, (_, at) => ({ key: `a/key-${at}`, reasons: [] }));
    const startedMs = systemClock.now();
    await queue.add(keys);
    await eventually(async () => expect(process.runs.length).toBe(keys.length), 60_000);
    // Two thousand at once, and a thousand a second.
    expect(systemClock.now() - startedMs).toBeGreaterThan(1500);
    expect(new Set(process.runs.map(({ key }) => key)).size).toBe(keys.length);
    // Another tenant's bound is its own.
    expect(rates.of('another').room()).toBeGreaterThan(100);
  });
});

describe('runs of a tenant that do not end', () => {
  it('are in flight in a bounded number, in all of its queues, and the other keys run when some have ended', async () => {
    const rates = new StartRates(systemClock, new GatewayRuns());
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const processes = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const process = new RecordingProcess();
        process.onRun = async () => (await ended, done);
        const queue = await openQueue(1000, rates.of('tenant'));
        await queue.start(process);
        await queue.add(Array.from({ length: 1000 }, (_, at) => ({ key: `a/key-${at}`, reasons: [] })));
        return process;
      }),
    );
    const begun = (): number => processes.reduce((sum, { runs }) => sum + runs.length, 0);
    await eventually(async () => expect(begun()).toBe(2000), 60_000);
    // A thousand more could begin each second, by the rate alone.
    await sleep(2000);
    expect(begun()).toBe(2000);
    const another = new RecordingProcess();
    const queue = await openQueue(4, rates.of('another'));
    await queue.start(another);
    await queue.add([{ key: 'a/one', reasons: [] }]);
    await eventually(async () => expect(another.keys()).toEqual(['a/one']));
    end();
    await eventually(async () => expect(begun()).toBe(3000), 60_000);
  });
});
