import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { groupWrites } from '../../src/contract/node/grouped-writes.ts';
import { startRedis } from '../../src/testing/index.ts';
import { eventually } from '../harness/eventually.ts';
import { Started } from '../harness/started.ts';

const started = new Started();
let url = '';

beforeAll(async () => {
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  ({ url } = server);
});

afterAll(() => started.stop());

function connect(): Redis {
  const redis = groupWrites(new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 10 }));
  redis.on('error', () => {});
  started.add(async () => redis.disconnect());
  return redis;
}

describe('a connection that groups its writes', () => {
  it('sends what one round of the event loop asks for with one write, later turns of it included', async () => {
    const redis = connect();
    const observer = new Redis(url);
    started.add(async () => observer.disconnect());
    await Promise.all([redis.ping(), observer.ping()]);
    const reads = async (): Promise<number> =>
      Number(/^total_reads_processed:(\d+)/m.exec(await observer.info('stats'))?.[1]);
    const before = await reads();
    const later = Promise.resolve().then(() => redis.rpush('list', '3'));
    // As when another socket is read in the same round.
    const turn = new Promise<void>((resolve) => process.nextTick(() => process.nextTick(resolve)));
    const last = turn.then(() => redis.rpush('list', '4'));
    const answers = [redis.rpush('list', '1'), redis.pipeline().rpush('list', '2').exec(), later, last];
    await Promise.all(answers);
    // One of them is that of INFO itself.
    expect((await reads()) - before).toBe(2);
    expect(await redis.lrange('list', 0, -1)).toEqual(['1', '2', '3', '4']);
  });

  it('sends in order, and all of it, while its socket is cut', async () => {
    const redis = connect();
    await redis.ping();
    const sent: Promise<unknown>[] = [];
    for (let at = 0; at < 500; at += 1) {
      sent.push(redis.set(`order:${at % 5}`, at));
      if (at % 100 === 50) redis.stream.destroy();
      if (at % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(sent);
    expect(await redis.mget(...[0, 1, 2, 3, 4].map((at) => `order:${at}`))).toEqual([
      '495',
      '496',
      '497',
      '498',
      '499',
    ]);
    // Nothing is left corked.
    await eventually(async () => expect(redis.stream.writableCorked).toBe(0));
  });
});
