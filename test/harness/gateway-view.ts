import { Redis } from 'ioredis';
import { queueKeys } from '../../src/gateway/workqueue/queue-keys.ts';
import { clusterIdentity } from '../../src/gateway/apiserver/discovery.ts';
import type { Cluster } from './cluster.ts';
import type { Setting } from './levelhook.ts';

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

/** Keys of a controller with a run on record, from both places that know: the flights and the key records. */
export async function runsOnRecord(setting: Setting, cluster: Cluster, controller: string): Promise<string[]> {
  const clusterId = await clusterIdentity(cluster.client);
  const { flights, recordPrefix } = queueKeys({ keyPrefix: setting.keyPrefix, clusterId, name: controller });
  const redis = new Redis(setting.redisUrl);
  try {
    const found = new Set(await redis.zrange(flights, '0', '-1'));
    for await (const keys of redis.scanStream({ match: `${recordPrefix}*`, count: 1000 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        if ((await redis.hexists(key, 'run')) === 1) found.add(key.slice(recordPrefix.length));
      }
    }
    return [...found];
  } finally {
    redis.disconnect();
  }
}

/** Lines of a log that are, or hold, a stack trace. */
export function stackTraces(output: string): string[] {
  return output.split('\n').filter((line) => /"stack":|(^|\\n)\s+at .+:\d+:\d+/.test(line));
}
