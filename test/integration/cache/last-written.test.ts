import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { encodeEntry, viewKeys } from '../../../src/contract/cache-layout.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { ForeignWriterError } from '../../../src/gateway/informer/cache/view-writer.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView, loseConnection } from '../../harness/views.ts';

const pods = resource('v1', 'Pod');

let redis: Redis;
let admin: Redis;
let view: View;
let applier: Applier;
let keys: ReturnType<typeof viewKeys>;
let nowMs: number;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  admin = await connectRedis(inject('redisUrl'));
});
afterAll(() => {
  redis.disconnect();
  admin.disconnect();
});
beforeEach(async () => {
  // What a writer remembers is trusted for two seconds, and a machine may stand still for longer.
  nowMs = performance.now();
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  view = createView(redis, pods);
  keys = viewKeys(view.location.prefix);
  await view.writer.claim('writer');
  applier = applierOf(view);
  await applier.apply(listOf('10', [pod('old', 5)]));
  await view.record.renew('run');
  await view.record.state();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await view.discard();
});

function pod(name: string, version: number): KubernetesObject {
  const metadata = { namespace: 'a', name, uid: `uid-${name}`, resourceVersion: String(version) };
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}
const change = (name: string, version: number) => applier.apply([{ kind: 'changed', object: pod(name, version) }]);
const versionOf = async (name: string) => (await view.objects.recentEntries([`a/${name}`]))[0]?.resourceVersion;
const entry = (name: string, version: number): string => encodeEntry(view.indexer.entryOf(pod(name, version)));
/** Puts older values into Redis, so that a test can tell whether a value came from Redis or from memory. */
async function replaceInRedis(): Promise<void> {
  await admin.hset(keys.view, 'version', '3');
  await admin.hset(keys.entries, 'a/x', entry('x', 3));
}

describe('the values that the writer of a view remembers', () => {
  beforeEach(() => change('x', 11));

  it('are those that it wrote last', async () => {
    await replaceInRedis();
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual(['11', '11']);
    await change('y', 12);
    expect([(await view.record.progress()).version, await versionOf('y')]).toEqual(['12', '12']);
  });

  it('are replaced by a state that recovery has read', async () => {
    await admin.hset(keys.view, 'version', '3');
    await view.record.state();
    expect((await view.record.progress()).version).toBe('3');
  });

  it('are dropped after a lost connection', async () => {
    await replaceInRedis();
    await loseConnection(view, redis, admin);
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('are dropped after a write that failed because another gateway writes the view', async () => {
    await new View(admin, pods, view.location).writer.claim('another');
    await replaceInRedis();
    await expect(change('y', 12)).rejects.toThrow(ForeignWriterError);
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('are dropped when the state names another writer', async () => {
    await new View(admin, pods, view.location).writer.claim('another');
    await replaceInRedis();
    await view.record.state();
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('are dropped when Redis has not answered for two seconds', async () => {
    await replaceInRedis();
    nowMs += 2100;
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('are dropped when the view is discarded', async () => {
    await view.discard();
    expect([(await view.record.progress()).version, await versionOf('x')]).toEqual([undefined, undefined]);
  });

  it('do not exist in a gateway that does not write the view', async () => {
    const reader = new View(redis, pods, view.location);
    expect((await reader.record.progress()).version).toBe('11');
    await replaceInRedis();
    expect((await reader.record.progress()).version).toBe('3');
  });

  it('include that an object was deleted', async () => {
    await applier.apply([{ kind: 'deleted', object: pod('x', 12) }]);
    await admin.hset(keys.entries, 'a/x', entry('x', 3));
    expect(await versionOf('x')).toBeUndefined();
  });

  it('do not include an object of which Redis had a newer version', async () => {
    await admin.hset(keys.entries, 'a/x', entry('x', 50));
    await change('x', 13);
    expect(await versionOf('x')).toBe('50');
  });

  it('do not include long entries, of which a tenant can make many', async () => {
    view.indexer.maintain(['field:spec.refs']);
    const refs = Array.from({ length: 30 }, (_, at) => `${at}`.padEnd(100, 'x'));
    await applier.apply([{ kind: 'changed', object: { ...pod('x', 14), spec: { refs } } as KubernetesObject }]);
    await replaceInRedis();
    expect(await versionOf('x')).toBe('3');
  });

  it('do not include entries that a backfill has changed', async () => {
    const [from] = await view.objects.entries(['a/x']);
    if (!from) throw new Error('there is no entry');
    await view.indexer.move([{ key: 'a/x', from, to: { ...from, indexEntries: ['field:spec.a=1'] } }]);
    expect((await view.objects.recentEntries(['a/x']))[0]?.indexEntries).toEqual(['field:spec.a=1']);
  });
});
