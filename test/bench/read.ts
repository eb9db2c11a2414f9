import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { type KubernetesObject, resource } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import { type CacheReader, HttpReader } from '../../src/function/index.ts';
import { undiciFetch } from '../../src/function/node/index.ts';
import { RedisReader } from '../../src/function/node/redis-reader.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import { startRedis } from '../../src/testing/index.ts';
import { applierOf } from '../harness/applier.ts';
import { TestProcess } from '../harness/process.ts';
import { dataOf } from './config-maps.ts';

/**
 * Reads from a cache of many objects of 4 KB, with both readers, and by HTTP with both clients: one object by name, and
 * the hundred of one controller by index; 1, 10 and 100 readers at once. Redis and the cache API are processes of their
 * own. `npm run bench read -- [--objects N] [--seconds N]`
 */
const { values } = parseArgs({
  options: { objects: { type: 'string', default: '100000' }, seconds: { type: 'string', default: '5' } },
});
const objects = Number(values.objects);
const seconds = Number(values.seconds);
const OWNED = 100;
const configMaps = resource('v1', 'ConfigMap');

const namespaceOf = (owner: number): string => `ns-${owner % 50}`;

function configMap(at: number): KubernetesObject {
  const uid = `owner-${Math.floor(at / OWNED)}`;
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: uid, uid, controller: true }];
  const metadata = {
    namespace: namespaceOf(Math.floor(at / OWNED)),
    name: `c-${at}`,
    uid: `uid-${at}`,
    resourceVersion: String(at + 1),
    ownerReferences,
  };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: dataOf(at) } as KubernetesObject;
}

async function fill(view: View): Promise<void> {
  const applier = applierOf(view);
  await view.writer.claim('writer');
  await applier.apply([{ kind: 'init', rewound: false }]);
  for (let from = 0; from < objects; from += 200) {
    const part = Array.from({ length: Math.min(200, objects - from) }, (_, at) => configMap(from + at));
    await applier.apply(part.map((object) => ({ kind: 'listed' as const, object })));
  }
  await applier.apply([{ kind: 'init-done', version: String(objects + 1), list: 0 }]);
}

const percentile = (sorted: readonly number[], part: number): number => sorted[Math.floor(sorted.length * part)] ?? NaN;
const random = (below: number): number => Math.floor(Math.random() * below);

async function get(reader: CacheReader): Promise<void> {
  const at = random(objects);
  const found = await reader.get(configMaps, { namespace: namespaceOf(Math.floor(at / OWNED)), name: `c-${at}` });
  if (found?.metadata.uid !== `uid-${at}`) throw new Error(`c-${at} was not found`);
}

async function list(reader: CacheReader): Promise<void> {
  const at = random(objects / OWNED);
  const owner = { metadata: { uid: `owner-${at}`, namespace: namespaceOf(at) } };
  const { items } = await reader.list(configMaps, { controlledBy: owner });
  if (items.length !== OWNED) throw new Error(`${items.length} objects instead of ${OWNED}`);
}

async function measure(name: string, readers: number, read: () => Promise<void>): Promise<void> {
  const times: number[] = [];
  const run = async (untilMs: number, kept: number[]): Promise<void> => {
    while (performance.now() < untilMs) {
      const from = performance.now();
      await read();
      kept.push(performance.now() - from);
    }
  };
  const all = (untilMs: number, kept: number[]) =>
    Promise.all(Array.from({ length: readers }, () => run(untilMs, kept)));
  // Warm.
  await all(performance.now() + 1000, []);
  const start = performance.now();
  await all(start + seconds * 1000, times);
  const rate = times.length / ((performance.now() - start) / 1000);
  times.sort((a, b) => a - b);
  const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)].map((ms) => ms.toFixed(2).padStart(8));
  console.log(
    `${name.padEnd(32)}${String(readers).padStart(4)} readers  p50 ${p50} ms  p99 ${p99} ms  ${Math.round(rate)}/s`,
  );
}

const server = await startRedis({ ignoreEnvironment: true });
const redis = new Redis(server.url);
const prefix = viewPrefix({ keyPrefix: 'bench', clusterId: 'bench', resource: configMaps, settings: 's' });
const view = new View(redis, configMaps, { prefix });
await fill(view);
const api = new TestProcess('test/bench/read-server.ts', [], { REDIS_URL: server.url, VIEW_PREFIX: prefix });
try {
  const { url, token } = await api.line(({ msg }) => msg === 'listening');
  const location = { views: { 'v1/ConfigMap': [{ prefix }] }, url: String(url), token: String(token) };
  const readers: [string, CacheReader][] = [
    ['RedisReader', new RedisReader(redis, location)],
    ['HttpReader', new HttpReader(location, { syncWaitMs: 60_000 })],
    ['HttpReader, undici', new HttpReader(location, { syncWaitMs: 60_000, fetch: undiciFetch })],
  ];
  console.log(`${objects} objects of 4 KB, ${seconds} s each`);
  for (const [name, reader] of readers) {
    for (const count of [1, 10, 100]) await measure(`${name}, get`, count, () => get(reader));
    for (const count of [1, 10, 100]) await measure(`${name}, list of ${OWNED}`, count, () => list(reader));
  }
} finally {
  await api.kill('SIGTERM');
  redis.disconnect();
  await server.stop();
}
