import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { readMemory } from '../../../src/ground/redis/redis-memory.ts';
import type { Ended } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let server: RedisServer;
let fixture: RedisQueueFixture;

beforeEach(async () => {
  server = await startRedis({ ignoreEnvironment: true });
  fixture = await RedisQueueFixture.create(server.url, systemClock);
});
afterEach(async () => {
  await fixture.close();
  await server.stop();
});

const KEYS = 2000;
const names = Array.from({ length: KEYS }, (_, at) => `a/key-${at}`);
const YEAR_MS = 31_536_000_000;
const failed: Ended = { kind: 'ended', failures: 'count', againAfterMs: 1, error: 'no '.repeat(500) };

/** Without the buffers of connections. */
const dataBytes = async (): Promise<number> => {
  const buffers = /^mem_clients_normal:(\d+)/m.exec(await fixture.redis.info('memory'))?.[1];
  return (await readMemory(fixture.redis)).used - Number(buffers);
};

describe('the keys of a controller weigh as much as they take in Redis, within a factor of two', () => {
  it.each<[string, (failures: number) => Ended, number]>([
    ['keys that wait for a requeue', () => ({ ...done, againAfterMs: YEAR_MS }), 1],
    ['keys that wait, with long barriers', () => ({ ...done, againAfterMs: YEAR_MS, barrier: 'b'.repeat(2000) }), 1],
    [
      'keys that fail, with their past outcomes',
      (failures) => (failures < 3 ? failed : { ...failed, againAfterMs: YEAR_MS }),
      4,
    ],
    [
      'keys that have recovered, and keep their past outcomes for an hour',
      (failures) => (failures < 3 ? failed : done),
      4,
    ],
  ])('%s', async (_, finishOf, runs) => {
    const queue = await fixture.open({ concurrency: 200 }, { historyRuns: 0 });
    const process = new RecordingProcess();
    process.onRun = ({ failures }) => finishOf(failures);
    await queue.start(process);
    await queue.add([{ key: 'warm', reasons: [] }]);
    await eventually(async () => expect(process.runs).toHaveLength(runs));
    const [bytes, weight] = [await dataBytes(), await queue.inspector.weigh()];
    await queue.add(names.map((key) => ({ key, reasons: [] })));
    await eventually(async () => expect(process.runs).toHaveLength((KEYS + 1) * runs), 120_000);
    await eventually(async () => expect(await fixture.redis.zcard(fixture.keys.inFlight)).toBe(0));
    const [taken, weighed] = [(await dataBytes()) - bytes, (await queue.inspector.weigh()) - weight];
    expect(weighed / taken).toBeGreaterThan(1 / 2);
    expect(weighed / taken).toBeLessThan(2);
  });
});

it('keys whose objects are paused weigh as much as they take in Redis, within a factor of two', async () => {
  const queue = await fixture.open({}, { historyRuns: 0 });
  await queue.start(new RecordingProcess());
  const keys = ['warm', ...names].map((key) => ({ key, reasons: [], paused: true }));
  const waiting = async (): Promise<number> => (await queue.inspector.levels()).sizes.waiting;
  await queue.add(keys.slice(0, 1));
  await eventually(async () => expect(await waiting()).toBe(1));
  const [bytes, weight] = [await dataBytes(), await queue.inspector.weigh()];
  await queue.add(keys.slice(1));
  await eventually(async () => expect(await waiting()).toBe(KEYS + 1));
  const [taken, weighed] = [(await dataBytes()) - bytes, (await queue.inspector.weigh()) - weight];
  expect(weighed / taken).toBeGreaterThan(1 / 2);
  expect(weighed / taken).toBeLessThan(2);
});

it('a queue that is left out for lack of memory stores no past outcomes of its keys', async () => {
  let reason: string | undefined = 'Redis is short of memory';
  const queue = await fixture.open({}, { bounds: { leftOut: () => reason } });
  const process = new RecordingProcess();
  process.onRun = () => ({ ...failed, againAfterMs: YEAR_MS });
  await queue.start(process);
  await queue.add([{ key: 'out', reasons: [] }]);
  await eventually(async () => expect((await queue.inspector.status('out')).failures).toBe(1));
  reason = undefined;
  await queue.add([{ key: 'in', reasons: [] }]);
  await eventually(async () => expect((await queue.inspector.status('in')).failures).toBe(1));
  expect((await fixture.names()).filter((name) => name.startsWith('history:'))).toEqual(['history:in']);
});

it('the past outcomes of a dead letter that runs again expire as those of other keys', async () => {
  const queue = await fixture.open();
  const process = new RecordingProcess();
  process.onRun = () =>
    process.runs.length === 1 ? { kind: 'ended', failures: 'keep', dead: true, error: 'no' } : done;
  await queue.start(process);
  await queue.add([{ key: 'k', reasons: [] }]);
  await eventually(async () => expect(await fixture.redis.zcard(fixture.keys.dead)).toBe(1));
  expect(await fixture.redis.pttl(`${fixture.keys.historyPrefix}k`)).toBe(-1);
  await queue.add([{ key: 'k', reasons: [] }]);
  await eventually(async () => expect(await fixture.pending()).toBe(0));
  expect(process.runs).toHaveLength(2);
  expect(await fixture.redis.pttl(`${fixture.keys.historyPrefix}k`)).toBeGreaterThan(0);
});
