import { Redis } from 'ioredis';
import { queueKeys } from '../../src/gateway/controller/workqueue/queue-keys.ts';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { masters } from '../../src/ground/redis/cluster.ts';
import { connectRedis } from '../../src/ground/redis/redis.ts';
import { settingsHash } from '../../src/gateway/informer/cache/view-settings.ts';
import { formatKind, type KubernetesObject } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import { RedisReader } from '../../src/function/node/redis-reader.ts';
import { type Cluster, configMaps } from './cluster.ts';
import type { Setting } from './levelhook.ts';

/** What the gateway says of a key, its last runs among it. For the message of a failed test. */
export async function storyOf(gatewayUrl: string, controller: string, key: string): Promise<string> {
  const answer = await fetch(`${gatewayUrl}/queues/${controller}/keys/${key}`).catch(
    (error: unknown) => new Response(String(error)),
  );
  return (await answer.text()).slice(0, 3000);
}

/** The sum over a metric's series that carry all of `labels`; 0 when there is none. */
export async function metric(
  gatewayUrl: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const text = await (await fetch(`${gatewayUrl}/metrics`)).text();
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => wanted.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** How many triggers of a controller have ended with each outcome, by one look: a run may end between two. */
export async function outcomesOf(gatewayUrl: string, controller: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${gatewayUrl}/metrics`)).text();
  const found = text.matchAll(/^levelhook_triggers_total\{controller="([^"]*)",outcome="([^"]*)"\} (\d+)$/gm);
  const ofController = [...found].filter(([, of, , count]) => of === controller && count !== '0');
  return Object.fromEntries(ofController.map(([, , outcome, count]) => [outcome, Number(count)]));
}

/**
 * Keys of a controller with a run on record, from both places that know: the set of runs in flight and the key records.
 */
export async function runsOnRecord(setting: Setting, cluster: Cluster, controller: string): Promise<string[]> {
  const clusterId = await clusterIdentity(cluster.client);
  const { inFlight, recordPrefix } = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, controller);
  const redis = await connectRedis(setting.redisUrl);
  try {
    const found = new Set(await redis.zrange(inFlight, '0', '-1'));
    for (const node of masters(redis)) {
      for await (const keys of node.scanStream({ match: `${recordPrefix}*`, count: 1000 }) as AsyncIterable<string[]>) {
        for (const key of keys) {
          if ((await redis.hexists(key, 'run')) === 1) found.add(key.slice(recordPrefix.length));
        }
      }
    }
    return [...found];
  } finally {
    redis.disconnect();
  }
}

/** Deletes all that Redis holds of a controller's queue, as if it had never been written. */
export async function forgetQueue(setting: Setting, cluster: Cluster, controller: string): Promise<void> {
  const clusterId = await clusterIdentity(cluster.client);
  const { queue } = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, controller);
  const tag = queue.slice(0, queue.indexOf('}') + 1);
  const redis = new Redis(setting.redisUrl);
  try {
    for await (const keys of redis.scanStream({ match: `${tag}*`, count: 1000 }) as AsyncIterable<string[]>) {
      if (keys.length > 0) await redis.del(...keys);
    }
  } finally {
    redis.disconnect();
  }
}

/** The versions of a namespace's ConfigMaps in the gateway's cache, by name, as a function would read them. */
export async function cachedVersions(
  setting: Setting,
  cluster: Cluster,
  namespace: string,
): Promise<Record<string, string>> {
  const clusterId = await clusterIdentity(cluster.client);
  const prefix = viewPrefix({
    keyPrefix: setting.keyPrefix,
    clusterId,
    resource: configMaps,
    settings: settingsHash({}, configMaps),
  });
  const redis = await connectRedis(setting.redisUrl);
  try {
    const reader = new RedisReader(redis, { views: { [formatKind(configMaps)]: [{ prefix }] } });
    return versions((await reader.list(configMaps, { namespace })).items);
  } finally {
    redis.disconnect();
  }
}

/** The same at the apiserver. */
export async function servedVersions(cluster: Cluster, namespace: string): Promise<Record<string, string>> {
  return versions((await cluster.list(configMaps, namespace)).items);
}

function versions(objects: readonly KubernetesObject[]): Record<string, string> {
  return Object.fromEntries(objects.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
}

/** Lines of a log that are, or hold, a stack trace. */
export function stackTraces(output: string): string[] {
  return output.split('\n').filter((line) => /"stack":|(^|\\n)\s+at .+:\d+:\d+/.test(line));
}
