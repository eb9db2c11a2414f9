import { isDeepStrictEqual } from 'node:util';
import { Redis } from 'ioredis';
import {
  compareResourceVersions,
  formatKind,
  formatObjectKey,
  isResourceVersion,
  type KubernetesObject,
  keyOf,
  type Resource,
  resourcePath,
} from '../../src/core/index.ts';
import { decodeEntry, indexEntriesOf, viewKeys, viewPrefix } from '../../src/contract/cache-layout.ts';
import type { IndexSpec, ViewLocation } from '../../src/contract/index.ts';
import { ObjectCodec } from '../../src/contract/node/codec.ts';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { PAUSED_INDEX } from '../../src/gateway/controller/handlers/paused.ts';
import { settingsHash, transformOf } from '../../src/gateway/informer/cache/view-settings.ts';
import type { ViewSettings } from '../../src/ground/config/cache-file.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import type { Setting } from './levelhook.ts';
import { storedObjects } from './stored-objects.ts';

/** A kind as a gateway caches it. */
export interface CachedKind {
  readonly resource: Resource;
  readonly settings?: ViewSettings;
  /** The declared indexes that must be complete: no more and no fewer. */
  readonly indexes?: readonly IndexSpec[];
}

/** Where the views of a kind are: what a trigger would tell a function. */
export async function viewsOf(setting: Setting, cluster: Cluster, kind: CachedKind): Promise<ViewLocation[]> {
  const { resource, settings = {} } = kind;
  const clusterId = await clusterIdentity(cluster.client);
  const namespaces = (resource.namespaced ? settings.namespaces : undefined) ?? [undefined];
  return namespaces.map((namespace) => ({
    prefix: viewPrefix({
      keyPrefix: setting.keyPrefix,
      clusterId,
      resource,
      settings: settingsHash(settings, resource, namespace),
    }),
    ...(namespace === undefined ? {} : { namespace }),
  }));
}

/**
 * Waits until the cache of these kinds equals the server: object by object, field by field; entries, order and every
 * index SET; nothing beside them; an empty outbox. Throws with the first differences. No client may write meanwhile.
 */
export async function untilCacheEqualsServer(
  setting: Setting,
  cluster: Cluster,
  kinds: readonly CachedKind[],
  limitMs = 60_000,
): Promise<void> {
  const redis = new Redis(setting.redisUrl, { maxRetriesPerRequest: 2 });
  redis.on('error', () => {});
  try {
    await eventually(async () => {
      const found: string[] = [];
      for (const kind of kinds) {
        for (const view of await viewsOf(setting, cluster, kind)) {
          found.push(...(await differences(redis, cluster, kind, view)));
        }
      }
      if (found.length > 0) throw new Error(`cache and server differ:\n${found.slice(0, 20).join('\n')}`);
    }, limitMs);
  } finally {
    redis.disconnect();
  }
}

async function differences(redis: Redis, cluster: Cluster, kind: CachedKind, view: ViewLocation): Promise<string[]> {
  const { resource } = kind;
  const keys = viewKeys(view.prefix);
  const server = await listServer(cluster, kind, view.namespace);
  const [objects, entries, order, state, waiting] = await Promise.all([
    storedObjects(redis, keys.objects),
    redis.hgetall(keys.entries),
    redis.zrange(keys.order, '0', '-1'),
    redis.hgetall(keys.view),
    redis.xlen(keys.outbox),
  ]);
  const complete = JSON.parse(state['indexes'] ?? '[]') as IndexSpec[];
  // The gateway's own, of kinds that are reconciled: it must be right where it is.
  const own = complete.filter((spec) => spec === PAUSED_INDEX);
  const indexes = [...(kind.indexes ?? []), ...own];
  const sets = await readSets(redis, keys.indexPrefix);
  const codec = new ObjectCodec({ prefix: view.prefix });
  const found: string[] = [];
  const differ = (what: string): number => found.push(`${formatKind(resource)} ${view.namespace ?? ''}: ${what}`);
  const same = (what: string, cached: unknown, expected: unknown): void => {
    if (!isDeepStrictEqual(cached, expected)) {
      differ(`${what} is ${JSON.stringify(cached)} and should be ${JSON.stringify(expected)}`);
    }
  };
  const expectedSets = new Map<string, string[]>();
  for (const [key, object] of server.objects) {
    const text = objects[key];
    const entry = entries[key];
    if (text === undefined || entry === undefined) {
      differ(`${key} is missing`);
      continue;
    }
    same(key, JSON.parse(codec.decode(key, text).toString('utf8')), object);
    const { metadata } = object;
    const indexEntries = indexEntriesOf(object, indexes);
    same(
      `the entry of ${key}`,
      { ...decodeEntry(entry), indexEntries: decodeEntry(entry).indexEntries.toSorted() },
      {
        resourceVersion: metadata.resourceVersion,
        uid: metadata.uid,
        terminating: metadata.deletionTimestamp !== undefined,
        indexEntries: indexEntries.toSorted(),
      },
    );
    for (const each of indexEntries) expectedSets.set(each, [...(expectedSets.get(each) ?? []), key]);
  }
  const names = [...server.objects.keys()].toSorted();
  same('objects', Object.keys(objects).toSorted(), names);
  same('entries', Object.keys(entries).toSorted(), names);
  same('order', order.toSorted(), names);
  same('order is in order', order, order.toSorted());
  for (const name of new Set([...sets.keys(), ...expectedSets.keys()])) {
    same(`index ${name}`, sets.get(name)?.toSorted(), expectedSets.get(name)?.toSorted());
  }
  same('complete indexes', complete.toSorted(), indexes.toSorted());
  same('outbox', waiting, 0);
  const { version } = state;
  if (!isResourceVersion(version)) differ(`version is ${version}`);
  else if (compareResourceVersions(version, server.version) > 0) differ(`version ${version} is ahead of the server`);
  return found;
}

/** What the server has, as the gateway's settings would let it into the cache. */
async function listServer(
  cluster: Cluster,
  { resource, settings = {} }: CachedKind,
  namespace: string | undefined,
): Promise<{ objects: Map<string, KubernetesObject>; version: string }> {
  const list = await cluster.client.json<{ items: KubernetesObject[]; metadata: { resourceVersion: string } }>({
    path: resourcePath(resource, { namespace }),
    query: { labelSelector: settings.labelSelector, fieldSelector: settings.fieldSelector },
    accept: settings.metadataOnly
      ? 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'
      : 'application/json',
  });
  const transform = transformOf(settings, formatKind(resource));
  const objects = new Map<string, KubernetesObject>();
  for (const item of list.items) {
    const object = { ...item, apiVersion: resource.apiVersion, kind: resource.kind };
    transform.object(object);
    objects.set(formatObjectKey(keyOf(object)), object);
  }
  return { objects, version: list.metadata.resourceVersion };
}

async function readSets(redis: Redis, indexPrefix: string): Promise<Map<string, string[]>> {
  const sets = new Map<string, string[]>();
  const match = `${indexPrefix}*`;
  for await (const keys of redis.scanStream({ match, count: 1000 }) as AsyncIterable<string[]>) {
    for (const key of keys) sets.set(key.slice(indexPrefix.length), await redis.smembers(key));
  }
  return sets;
}
