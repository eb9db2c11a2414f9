import { expect, inject, it, vi } from 'vitest';
import { resource } from '../../src/core/index.ts';
import { viewKeys } from '../../src/contract/cache-layout.ts';
import { generateSecret, importSecret } from '../../src/contract/index.ts';
import { redisCache } from '../../src/function/node/index.ts';
import { RedisReader } from '../../src/function/node/redis-reader.ts';
import { ReaderConnection } from '../../src/function/node/reader-connection.ts';
import { ReaderUsers } from '../../src/gateway/controller/access/reader-users.ts';
import { connectRedis } from '../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../harness/applier.ts';
import { cacheKeyRing } from '../harness/cache-keys.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { quietRuntime } from '../harness/quiet-runtime.ts';
import { createView } from '../harness/views.ts';
import { cacheReaderContract, serveViews } from './cache-reader-contract.ts';

cacheReaderContract('RedisReader', async (world) => {
  const { server, location } = await serveViews(world);
  const { redis, syncWaitMs } = world;
  return { reader: new RedisReader(redis, location, { syncWaitMs }), close: () => server.close() };
});

cacheReaderContract('RedisReader, as the user that the gateway makes for it', async (world) => {
  const { redis, views, syncWaitMs } = world;
  const { server, location } = await serveViews(world);
  const secret = generateSecret();
  const users = new ReaderUsers({
    runtime: quietRuntime(),
    location: { redis, keyPrefix: uniqueName('test'), clusterId: 'c' },
    ring: cacheKeyRing(),
    namespaces: [],
    mayCome: () => false,
  });
  const readable = [...views, ...Object.values(location.views).flat()];
  const declared = { controller: 'x', declaration: 'd' };
  await users.allow(
    declared,
    readable.map((view) => ('location' in view ? view.location : view)),
    [await importSecret(secret)],
  );
  const user = users.userOf(declared) ?? '';
  const signal = AbortSignal.timeout(60_000);
  const connection = await new ReaderConnection(inject('redisUrl'), { secrets: [secret] }).as(user, { signal });
  return {
    reader: new RedisReader(connection, location, { syncWaitMs }),
    close: async () => {
      connection.disconnect();
      await server.close();
      await redis.call('ACL', 'DELUSER', user);
    },
  };
});

it('RedisReader opens one connection for all triggers, at the first read', async () => {
  const redis = await connectRedis(inject('redisUrl'));
  const pods = resource('v1', 'Pod');
  const view = createView(redis, pods);
  await view.writer.claim('writer');
  const metadata = { namespace: 'a', name: 'b', uid: 'u', resourceVersion: '1' };
  const applier = applierOf(view);
  await applier.apply(listOf('2', [{ apiVersion: 'v1', kind: 'Pod', metadata }]));
  let asked = 0;
  const open = redisCache(() => {
    asked += 1;
    return inject('redisUrl');
  });
  const location = { views: { 'v1/Pod': [view.location] } };
  const { signal } = new AbortController();
  expect(asked).toBe(0);
  expect((await open(location, { signal }).get(pods, metadata))?.metadata).toEqual(metadata);
  expect(await open(location, { signal }).get(pods, { namespace: 'b', name: 'far' })).toBeUndefined();
  expect(asked).toBe(1);
  redis.disconnect();
});

it('RedisReader gets all objects of a view that runs ask for at the same time with one command', async () => {
  const redis = await connectRedis(inject('redisUrl'));
  const pods = resource('v1', 'Pod');
  const view = createView(redis, pods);
  await view.writer.claim('writer');
  const names = Array.from({ length: 10 }, (_, at) => `pod-${at}`);
  const objects = names.map((name) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'a', name, uid: name, resourceVersion: '1' },
  }));
  await applierOf(view).apply(listOf('2', objects));
  const { prefix } = view.location;
  const { objects: objectsKey } = viewKeys(prefix);
  await redis.hset(objectsKey, 'a/pod-3', 'unreadable');
  const sent = vi.spyOn(redis, 'sendCommand');
  const location = { views: { 'v1/Pod': [view.location] } };
  // Two triggers have a reader each.
  const readers = [new RedisReader(redis, location), new RedisReader(redis, location)];
  const gets = [...names, 'none'].map(async (name, at) => readers[at % 2]?.get(pods, { namespace: 'a', name }));
  const results = await Promise.allSettled(gets);
  // An object that cannot be decoded has no effect on the others.
  const found = [...objects, undefined].map((value) => ({ status: 'fulfilled', value }));
  expect(results).toEqual(found.toSpliced(3, 1, { status: 'rejected', reason: expect.any(TypeError) } as never));
  expect(sent.mock.calls.map(([{ name, args }]) => `${name} ${String(args[0])}`)).toEqual([`hmget ${objectsKey}`]);
  redis.disconnect();
});
