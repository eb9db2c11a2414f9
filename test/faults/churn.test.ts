import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { untilCacheEqualsServer } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, startGateway } from '../harness/levelhook.ts';
import { startObserver } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';

/** `CHURN_LONG=1` is the long form: 10,000 objects, 500 changes a second for a minute, ten kills. */
const long = process.env['CHURN_LONG'] === '1';
const objects = long ? 10_000 : 1000;
const perSecond = long ? 500 : 200;
const seconds = long ? 60 : 15;
const kills = long ? 10 : 3;
const cutEveryMs = 3000;
const seed = Number(process.env['CHURN_SEED'] ?? Date.now() % 2_147_483_647);
const PAYLOAD = 'x'.repeat(900);

let plane: ControlPlane;
let cluster: Cluster;
let proxy: CuttingProxy;
let directory: string;
const processes = new Set<TestProcess>();

beforeAll(async () => {
  plane = await startControlPlane();
  cluster = await Cluster.connect(plane.kubeconfig);
  proxy = await CuttingProxy.start(plane.server);
  directory = await mkdtemp(join(tmpdir(), 'churn-'));
}, 120_000);

afterAll(async () => {
  for (const each of processes) await each.kill();
  await cluster?.close();
  await proxy?.stop();
  await plane?.stop();
  await rm(directory, { recursive: true, force: true });
});

test(
  `a churning cluster, cut connections and killed gateways leave nothing stale (CHURN_SEED=${seed})`,
  { timeout: 120_000 + seconds * 6000 },
  async () => {
    const random = generator(seed);
    const namespace = 'churn';
    await cluster.createNamespace(namespace);
    const name = (at: number): string => `object-${at}`;
    const create = (at: number): Promise<unknown> =>
      cluster.create(configMaps, { metadata: { name: name(at), namespace }, data: { payload: PAYLOAD, change: '0' } });
    await inParallel(objects, 32, create);

    const setting = createSetting({
      kubeconfig: await proxy.kubeconfig(plane.kubeconfig, join(directory, 'kubeconfig')),
      redisUrl: inject('redisUrl'),
    });
    const observer = await startObserver(setting, { name: 'churn', for: configMaps, concurrency: 20 });
    processes.add(observer.process);
    const start = async (): ReturnType<typeof startGateway> => {
      const started = await startGateway(setting, [observer.url]);
      processes.add(started.process);
      return started;
    };
    let gateway = await start();
    proxy.cutEvery(cutEveryMs);

    // The churn, at an even pace, with the kills spread over it.
    const from = Date.now();
    const total = perSecond * seconds;
    const gone = new Set<number>();
    const busy = new Set<number>();
    const running = new Set<Promise<void>>();
    let killed = 0;
    let made = 0;
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
      if (killed < kills && count >= ((killed + 1) * total) / (kills + 1)) {
        killed += 1;
        await gateway.process.kill('SIGKILL');
        gateway = await start();
      }
    }
    await Promise.all(running);
    const tookMs = Date.now() - from;
    proxy.heal();
    const endedAt = Date.now();

    const last = new Map<string, string>();
    const { items } = await cluster.list(configMaps, namespace);
    for (const { metadata } of items) last.set(metadata.name, metadata.resourceVersion);
    // One second, beside the time that a comparison of everything takes, and a reconnect after a cut just now.
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps }], 20_000);
    const equalAfterMs = Date.now() - endedAt;
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
      `${made} changes of ${objects} objects in ${(tookMs / 1000).toFixed(1)} s, ${proxy.cuts} cuts, ${killed} kills; ` +
        `equal after ${equalAfterMs} ms, all reconciled after ${reconciledAfterMs} ms, ${observer.count} runs; ` +
        `apiserver_terminated_watchers_total ${count}\n`,
    );
    // A watch that was cut, or whose gateway was killed, may count once: nobody reads it until the apiserver notices.
    expect(count).toBeLessThanOrEqual(proxy.cuts + killed);
    await gateway.process.kill('SIGTERM');
    await observer.process.kill('SIGTERM');
  },
);

async function inParallel(count: number, workers: number, each: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) await each(at);
  };
  await Promise.all(Array.from({ length: workers }, work));
}

function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 4_294_967_296;
  };
}
