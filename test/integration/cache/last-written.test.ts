import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { encodeEntry, viewKeys, viewPrefix } from '../../../src/contract/cache-layout.ts';
import type { Applier } from '../../../src/gateway/cache/applier.ts';
import { View } from '../../../src/gateway/cache/view.ts';
import { ForeignWriterError } from '../../../src/gateway/cache/view-writer.ts';
import { connectRedis, type Redis } from '../../../src/gateway/redis/redis.ts';
import { applierOf } from '../../harness/applier.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';

const pods = resource('v1', 'Pod');

let redis: Redis;
let admin: Redis;
let view: View;
let applier: Applier;
let keys: ReturnType<typeof viewKeys>;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  admin = await connectRedis(inject('redisUrl'));
});
afterAll(() => {
  redis.disconnect();
  admin.disconnect();
});
beforeEach(async () => {
  const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: pods, settings: 's' });
  view = new View(redis, pods, { prefix });
  keys = viewKeys(prefix);
  await view.claim('writer');
  applier = applierOf(view);
  await applier.apply([
    { kind: 'init', rewound: false },
    { kind: 'listed', object: pod('old', 5) },
    { kind: 'init-done', version: '10', list: 0 },
  ]);
  await view.renew('run');
  await view.state();
});
afterEach(() => view.discard());

function pod(name: string, version: number): KubernetesObject {
  const metadata = { namespace: 'a', name, uid: `uid-${name}`, resourceVersion: String(version) };
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}
const change = (name: string, version: number) => applier.apply([{ kind: 'changed', object: pod(name, version) }]);
const versionOf = async (name: string) => (await view.recentEntries([`a/${name}`]))[0]?.resourceVersion;
const entry = (name: string, version: number): string => encodeEntry(view.indexer.entryOf(pod(name, version), false));
/** What Redis has lost, unnoticed. */
async function replaceInRedis(): Promise<void> {
  await admin.hset(keys.view, 'version', '3');
  await admin.hset(keys.entries, 'a/x', entry('x', 3));
}

describe('what the writer of a view knows without asking', () => {
  beforeEach(() => change('x', 11));

  it('is what it has written, without a trip', async () => {
    await replaceInRedis();
    expect([(await view.progress()).version, await versionOf('x')]).toEqual(['11', '11']);
    await change('y', 12);
    expect([(await view.progress()).version, await versionOf('y')]).toEqual(['12', '12']);
  });

  it('is what Redis said last, where recovery has looked', async () => {
    await admin.hset(keys.view, 'version', '3');
    await view.state();
    expect((await view.progress()).version).toBe('3');
  });

  it('is nothing after a lost connection', async () => {
    await replaceInRedis();
    const before = view.outbox.connection;
    await admin.client('KILL', 'ID', await redis.client('ID'));
    await eventually(async () => expect(view.outbox.connection).toBeGreaterThan(before));
    expect([(await view.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('is nothing after a write that another gateway has made impossible', async () => {
    await new View(admin, pods, view.location).claim('another');
    await replaceInRedis();
    await expect(change('y', 12)).rejects.toThrow(ForeignWriterError);
    expect([(await view.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('is nothing once the state names another writer, or none', async () => {
    await new View(admin, pods, view.location).claim('another');
    await replaceInRedis();
    await view.state();
    expect([(await view.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('is nothing when Redis has confirmed it for the last time two seconds ago', async () => {
    await replaceInRedis();
    await sleep(2100);
    expect([(await view.progress()).version, await versionOf('x')]).toEqual(['3', '3']);
  });

  it('is nothing of a view that it has removed', async () => {
    await view.discard();
    expect([(await view.progress()).version, await versionOf('x')]).toEqual([undefined, undefined]);
  });

  it('is nothing for a gateway that does not write the view', async () => {
    const reader = new View(redis, pods, view.location);
    expect((await reader.progress()).version).toBe('11');
    await replaceInRedis();
    expect((await reader.progress()).version).toBe('3');
  });

  it('includes that an object is gone', async () => {
    await applier.apply([{ kind: 'deleted', object: pod('x', 12) }]);
    await admin.hset(keys.entries, 'a/x', entry('x', 3));
    expect(await versionOf('x')).toBeUndefined();
  });

  it('does not include a write that the script left out, since Redis had something newer', async () => {
    await admin.hset(keys.entries, 'a/x', entry('x', 50));
    await change('x', 13);
    expect(await versionOf('x')).toBe('50');
  });

  it('does not include entries that a backfill has changed', async () => {
    const [from] = await view.entries(['a/x']);
    if (!from) throw new Error('there is no entry');
    await view.indexer.move([{ key: 'a/x', from, to: { ...from, indexEntries: ['field:spec.a=1'] } }]);
    expect((await view.recentEntries(['a/x']))[0]?.indexEntries).toEqual(['field:spec.a=1']);
  });
});
