import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { parse, stringify } from 'yaml';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { messageOf } from '../../src/core/index.ts';
import { decodeEntry, viewKeys } from '../../src/contract/cache-layout.ts';
import { untilCacheEqualsServer, viewsOf } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway } from '../harness/levelhook.ts';
import { startObserver } from '../harness/observer.ts';
import { newSeed, randomOf } from '../harness/random.ts';
import { TestProcess } from '../harness/process.ts';

/** `CHURN_LONG=1` is the long form: 10,000 objects, 500 changes a second for a minute, ten kills. */
const long = process.env['CHURN_LONG'] === '1';
const objects = long ? 10_000 : 1000;
const perSecond = long ? 500 : 200;
const seconds = long ? 60 : 15;
const kills = long ? 10 : 3;
const cutEveryMs = 3000;
/** The cuts end so long before the churn: no watch follows a server from behind a cut before its backoff is over. */
const quietMs = 3000;
const seed = newSeed();
const PAYLOAD = 'x'.repeat(900);

let plane: ControlPlane;
let cluster: Cluster;
let directory: string;
const processes = new Set<TestProcess>();

beforeAll(async () => {
  plane = await startControlPlane();
  cluster = await Cluster.connect(plane.kubeconfig);
  directory = await mkdtemp(join(tmpdir(), 'churn-'));
});

afterAll(async () => {
  for (const each of processes) await each.kill();
  await cluster?.close();
  await plane?.stop();
  await rm(directory, { recursive: true, force: true });
});

test(
  `a churning cluster, cut connections and killed gateways leave nothing stale (TEST_SEED=${seed})`,
  { timeout: 120_000 + seconds * 6000 },
  async () => {
    const random = randomOf(seed);
    const namespace = 'churn';
    await cluster.createNamespace(namespace);
    const name = (at: number): string => `object-${at}`;
    const create = (at: number): Promise<unknown> =>
      cluster.create(configMaps, { metadata: { name: name(at), namespace }, data: { payload: PAYLOAD, change: '0' } });
    await inParallel(objects, 32, create);

    const proxy = new TestProcess('test/harness/cutting-proxy-program.ts', [plane.server, String(cutEveryMs)], {});
    processes.add(proxy);
    const { url } = await proxy.line(({ msg }) => msg === 'listening');
    const setting = createSetting({ kubeconfig: await kubeconfigThrough(String(url)), redisUrl: inject('redisUrl') });
    const observer = await startObserver(setting, { name: 'churn', for: configMaps, concurrency: 20 });
    processes.add(observer.process);
    const start = async (): ReturnType<typeof startGateway> => {
      const started = await startGateway(setting, [observer.url]);
      processes.add(started.process);
      return started;
    };
    let gateway = await start();

    // The churn, at an even pace, with the kills spread over it.
    const from = Date.now();
    const total = perSecond * seconds;
    const gone = new Set<number>();
    const busy = new Set<number>();
    const running = new Set<Promise<void>>();
    let killed = 0;
    let made = 0;
    let healed = false;
    const change = async (at: number, what: number, count: number): Promise<void> => {
      if (gone.has(at)) {
        await create(at);
        gone.delete(at);
      } else if (what < 0.1) {
        await cluster.delete(configMaps, { namespace, name: name(at) });
        gone.add(at);
      } else await cluster.patch(configMaps, { namespace, name: name(at) }, { data: { change: String(count) } });
    };
    for (let count = 1; count <= total; count += 1) {
      const ahead = from + (count * 1000) / perSecond - Date.now();
      if (ahead > 5) await sleep(ahead);
      const at = Math.floor(random() * objects);
      const what = random();
      // One change of an object at a time, so that this knows what there is.
      if (!busy.has(at)) {
        busy.add(at);
        made += 1;
        const one = change(at, what, count).finally(() => (busy.delete(at), running.delete(one)));
        running.add(one);
      }
      if (running.size > 100) await Promise.race(running);
      if (!healed && (total - count) * 1000 < quietMs * perSecond) {
        healed = true;
        process.kill(proxy.pid, 'SIGUSR2');
      }
      if (killed < kills && count >= ((killed + 1) * total) / (kills + 1)) {
        killed += 1;
        await gateway.process.kill('SIGKILL');
        gateway = await start();
      }
    }
    await Promise.all(running);
    const tookMs = Date.now() - from;
    const endedAt = Date.now();

    const last = new Map<string, string>();
    const { items } = await cluster.list(configMaps, namespace);
    for (const { metadata } of items) last.set(metadata.name, metadata.resourceVersion);
    const equalAt = await untilVersionsEqual(setting, namespace, last).catch((error: unknown) => {
      throw new Error(`the cache stays stale: ${messageOf(error)}\n${gateway.process.output.slice(-4000)}`);
    });
    const notStaleAfterMs = equalAt - endedAt;
    if (long) expect(notStaleAfterMs, 'after the last change').toBeLessThanOrEqual(1000);
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps }], 20_000);
    const cuts = Number((await proxy.line(({ msg }) => msg === 'healed'))['cuts']);
    const stale = await eventually(async () => {
      const seen = new Map(observer.seen().map((each) => [each.key, each.resourceVersion]));
      const missing = [...Array(objects).keys()].filter((at) => {
        const version = seen.get(`${namespace}/${name(at)}`);
        return version === undefined ? last.has(name(at)) : (version ?? undefined) !== last.get(name(at));
      });
      if (missing.length > 0) throw new Error(`${missing.length} objects were not reconciled at their last version`);
      return missing;
    }, 120_000);
    const reconciledAfterMs = Date.now() - endedAt;
    expect(stale).toEqual([]);

    const metrics = await cluster.client.stream({ path: '/metrics', accept: 'text/plain' });
    let text = '';
    for await (const part of metrics) text += String(part);
    const terminated = [...text.matchAll(/^apiserver_terminated_watchers_total(\{[^}]*\}) (\d+)$/gm)];
    const count = terminated.reduce((sum, [, , value]) => sum + Number(value), 0);
    for (const [line] of terminated) process.stdout.write(`${line}\n`);
    process.stdout.write(
      `${made} changes of ${objects} objects in ${(tookMs / 1000).toFixed(1)} s, ${cuts} cuts, ${killed} kills; ` +
        `nothing stale after ${notStaleAfterMs} ms, all reconciled after ${reconciledAfterMs} ms, ${observer.count} runs; ` +
        `apiserver_terminated_watchers_total ${count}\n`,
    );
    // A watch that was cut, or whose gateway was killed, may count once: it is not read until the apiserver notices.
    expect(count).toBeLessThanOrEqual(cuts + killed);
    await gateway.process.kill('SIGTERM');
    await observer.process.kill('SIGTERM');
  },
);

/** A copy of the kubeconfig that leads through the proxy. */
async function kubeconfigThrough(url: string): Promise<string> {
  const config = parse(await readFile(plane.kubeconfig, 'utf8')) as { clusters: { cluster: { server: string } }[] };
  for (const { cluster: each } of config.clusters) each.server = url;
  const path = join(directory, 'kubeconfig');
  await writeFile(path, stringify(config), { mode: 0o600 });
  return path;
}

/** When the cache was read in which every object has its last version. */
async function untilVersionsEqual(setting: Setting, namespace: string, last: Map<string, string>): Promise<number> {
  const redis = new Redis(setting.redisUrl);
  const [view] = await viewsOf(setting, cluster, { resource: configMaps });
  try {
    return await eventually(
      async () => {
        const readAt = Date.now();
        const entries = await redis.hgetall(viewKeys(view?.prefix ?? '').entries);
        const cached = new Map(
          Object.entries(entries)
            .filter(([key]) => key.startsWith(`${namespace}/`))
            .map(([key, text]) => [key.slice(namespace.length + 1), decodeEntry(text).resourceVersion]),
        );
        const stale = [...last].filter(([key, version]) => cached.get(key) !== version);
        if (stale.length + Math.abs(cached.size - last.size) > 0)
          throw new Error(`${stale.length} of ${last.size} objects`);
        return readAt;
      },
      60_000,
      50,
    );
  } finally {
    redis.disconnect();
  }
}

async function inParallel(count: number, workers: number, each: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) await each(at);
  };
  await Promise.all(Array.from({ length: workers }, work));
}
