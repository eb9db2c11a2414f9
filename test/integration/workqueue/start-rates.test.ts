import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { StartRates } from '../../../src/gateway/controller/workqueue/worker/start-rates.ts';
import { eventually } from '../../harness/eventually.ts';
import { RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixture: RedisQueueFixture;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
});
afterEach(() => fixture.close());

describe('keys of a tenant that are ready again and again', () => {
  it('start no faster than a tenant may, in all of its queues, and each of them runs', async () => {
    const rates = new StartRates(systemClock);
    const process = new RecordingProcess();
    const bounds = { starts: rates.of('tenant') };
    const queue = await fixture.open({ concurrency: 100 }, { bounds });
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
