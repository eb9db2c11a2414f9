import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TimeSlice } from '../../../src/ground/time-slice.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { readMemory } from '../../../src/ground/redis/redis-memory.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { createView } from '../../harness/views.ts';

let server: RedisServer;
let redis: Redis;

beforeEach(async () => {
  server = await startRedis({ ignoreEnvironment: true });
  redis = await connectRedis(server.url);
});

afterEach(async () => {
  redis.disconnect();
  await server.stop();
});

it('objects that fifty controllers read at once wait in this process, not in the answers of Redis', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  const { apiVersion, kind } = configMaps;
  // Random, so that Redis holds them as they are.
  const text = (): string => Array.from({ length: 40_000 }, () => Math.random().toString(36).slice(2, 12)).join('');
  const names = Array.from({ length: 8 }, (_, at) => `large-${at}`);
  for (const [at, name] of names.entries()) {
    const metadata = { namespace: 'a', name, uid: name, resourceVersion: `${at + 1}` };
    await applierOf(view).apply([
      { kind: 'changed', object: { apiVersion, kind, metadata, data: { text: text() } } as never },
    ]);
  }
  const keys = names.map((name) => `a/${name}`);
  const before = (await readMemory(redis)).used;
  const admin = await connectRedis(server.url);
  let most = 0;
  const over = new AbortController();
  const watching = (async (): Promise<void> => {
    for (; !over.signal.aborted; await sleep(1)) most = Math.max(most, (await readMemory(admin)).used - before);
  })();
  const readAll = async (tenant: string): Promise<number> => {
    let found = 0;
    for await (const { encoded } of view.objects.eachEncoded(keys, new TimeSlice(tenant))) if (encoded) found += 1;
    return found;
  };
  const read = await Promise.all(Array.from({ length: 50 }, () => readAll('hostile')));
  over.abort();
  await watching;
  admin.disconnect();
  expect(read).toEqual(Array.from({ length: 50 }, () => 8));
  expect(most / 2 ** 20).toBeLessThan(20);
});
