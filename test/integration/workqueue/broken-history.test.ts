import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import type { Finish, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let redis: RedisServer;
let fixture: RedisQueueFixture;
let process: RecordingProcess;
let queue: WorkQueue;

beforeEach(async () => {
  redis = await startRedis({ ignoreEnvironment: true });
  fixture = await RedisQueueFixture.create(redis.url, systemClock);
  process = new RecordingProcess();
  queue = await fixture.open();
  await queue.start(process);
});

afterEach(async () => {
  await fixture.redis.config('SET', 'maxmemory', '0');
  await fixture.close();
  await redis.stop();
  expect(process.overlaps).toEqual([]);
  expect(fixture.troubles).toEqual([]);
});

const run = async (...keys: string[]): Promise<void> => {
  await queue.add(keys.map((key) => ({ key, reasons: [] })));
  await eventually(async () => expect(await fixture.pending()).toBe(0));
};
/** A run is recorded when its gateway has Redis' answer, a little after it has ended there. */
const runAndRemember = async (key: string): Promise<void> => {
  await run(key);
  await eventually(async () => expect((await remembered())[0]).toBe(key));
};
const remembered = async (): Promise<string[]> => (await queue.history.runs({ limit: 100 })).runs.map(({ key }) => key);

describe('a history that cannot be written', () => {
  it.each([
    ['the stream has another type', () => fixture.redis.set(fixture.keys.recent, 'text')],
    ['the count of what was recorded is lost', () => fixture.redis.hdel(fixture.keys.queue, 'recorded')],
    ['the stream is lost', () => fixture.redis.del(fixture.keys.recent)],
  ])('begins anew, and the runs end: %s', async (_, damage) => {
    await runAndRemember('before');
    const { newest: after = '' } = await queue.history.runs({ limit: 1 });
    await damage();
    await runAndRemember('first');
    await runAndRemember('second');
    expect(await remembered()).toEqual(['second', 'first']);
    expect((await queue.history.runs({ limit: 10, after })).runs.map(({ key }) => key)[0]).toBe('second');
    expect((await queue.history.runsOf('second')).map(({ outcome }) => outcome)).toEqual(['done']);
  });

  it('lets runs end whose count cannot be read, and whose own history has another type', async () => {
    await fixture.redis.hset(fixture.keys.queue, 'recorded', 'text');
    await fixture.redis.set(`${fixture.keys.historyPrefix}k`, 'text');
    process.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true, error: 'no' });
    await run('k');
    expect(await queue.inspector.status('k')).toMatchObject({ deadSinceMs: expect.any(Number) as number });
    expect(process.runs).toHaveLength(1);
  });

  it('lets runs end while Redis is out of memory', async () => {
    const { promise, resolve } = Promise.withResolvers<Finish>();
    process.onRun = () => promise;
    await queue.add(['a', 'b'].map((key) => ({ key, reasons: [] })));
    await eventually(async () => expect(process.inFlight).toHaveLength(2));
    await fixture.redis.config('SET', 'maxmemory', '1');
    resolve(done);
    await eventually(async () => expect(await fixture.redis.zcard(fixture.keys.inFlight)).toBe(0));
    await fixture.redis.config('SET', 'maxmemory', '0');
    await eventually(async () => expect(await fixture.pending()).toBe(0));
    expect(process.runs).toHaveLength(2);
  });
});
