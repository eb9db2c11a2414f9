import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { resource } from '../../src/core/index.ts';
import { viewKeys, viewPrefix } from '../../src/contract/cache-layout.ts';
import { settingsHash } from '../../src/gateway/informer/cache/view-settings.ts';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { createSetting, startGateway } from '../harness/levelhook.ts';
import { startObserver } from '../harness/observer.ts';
import { TestProcess } from '../harness/process.ts';
import { dataOf } from './config-maps.ts';
import { INSPECTABLE, liveHeap } from './live-heap.ts';

/**
 * Fills the cache with many objects of 4 KB, from the real apiserver and from a scripted stream, beside a plain loop
 * that only reads and parses them. `node --conditions=levelhook-source test/bench/cache-fill.ts [--objects N] [--runs
 * N] [--source real|scripted] [--changes N] [--profile DIRECTORY]`
 */
const { values } = parseArgs({
  options: {
    objects: { type: 'string', default: '100000' },
    source: { type: 'string' },
    runs: { type: 'string', default: '3' },
    changes: { type: 'string', default: '50000' },
    profile: { type: 'string' },
  },
});
const objects = Number(values.objects);
const runs = Number(values.runs);
const changes = Number(values.changes);
/** The function reconciles a kind of which there is none, so no keys run. */
const nothing = resource('v1', 'ReplicationController');

interface Source {
  readonly name: string;
  readonly kubeconfig: string;
  /** Makes this many changes, and gives the version of the last. */
  readonly change?: (count: number) => Promise<string>;
}

interface Figures {
  readonly syncMs: number;
  readonly peak: number;
  readonly steady: number;
  readonly live: number;
  readonly redis: number;
  readonly changesMs: number | undefined;
}

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? NaN;
const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(0)} MiB`;

function memory(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const read = (field: string): number => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(text)?.[1] ?? 0) * 1024;
  return { now: read('VmRSS'), peak: read('VmHWM') };
}

async function usedMemory(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(10);
}

async function runGateway(source: Source, expected: number): Promise<Figures> {
  const server = await startRedis({ ignoreEnvironment: true });
  const redis = new Redis(server.url);
  const setting = createSetting({ kubeconfig: source.kubeconfig, redisUrl: server.url });
  const variables = {
    LEVELHOOK_CLUSTER_ID: 'bench',
    NODE_OPTIONS: [INSPECTABLE, ...(values.profile ? ['--cpu-prof', `--cpu-prof-dir=${values.profile}`] : [])].join(
      ' ',
    ),
  };
  const observer = await startObserver(setting, { name: 'bench', for: nothing, reads: [configMaps] });
  const before = await usedMemory(redis);
  const gateway = await startGateway(setting, [observer.url], variables);
  const start = performance.now();
  const keys = viewKeys(
    viewPrefix({
      keyPrefix: setting.keyPrefix,
      clusterId: 'bench',
      resource: configMaps,
      settings: settingsHash({}, configMaps),
    }),
  );
  try {
    await until(async () => (await redis.hexists(keys.view, 'version')) === 1);
    const syncMs = performance.now() - start;
    const found = await redis.hlen(keys.entries);
    if (found < expected) throw new Error(`${found} objects in the cache instead of ${expected}`);
    await sleep(15_000);
    const { now, peak } = memory(gateway.process.pid);
    const live = await liveHeap(gateway.process);
    const used = (await usedMemory(redis)) - before;
    let changesMs: number | undefined;
    if (source.change) {
      const from = performance.now();
      const last = await source.change(changes);
      await until(async () => (await redis.hget(keys.view, 'version')) === last);
      changesMs = performance.now() - from;
    }
    return { syncMs, peak, steady: now, live, redis: used, changesMs };
  } finally {
    await gateway.process.kill('SIGTERM');
    await observer.process.kill('SIGTERM');
    redis.disconnect();
    await server.stop();
  }
}

async function runPlain(
  source: Source,
  form: 'stream' | 'pages',
  count = 0,
): Promise<{ ms: number; changesMs: number }> {
  const plain = new TestProcess('test/bench/plain-loop.ts', [source.kubeconfig, form, String(count)], {});
  const listed = await plain.line(({ msg }) => msg === 'listed');
  let changesMs = NaN;
  if (count > 0 && source.change) {
    await source.change(count);
    changesMs = Number((await plain.line(({ msg }) => msg === 'changed'))['ms']);
  }
  await plain.exited;
  return { ms: Number(listed['ms']), changesMs };
}

async function measure(source: Source, empty: Source): Promise<void> {
  const baseline = await runGateway(empty, 0);
  const figures: Figures[] = [];
  const streams: number[] = [];
  const pages: number[] = [];
  const plainChanges: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    const plain = await runPlain(source, 'stream', source.change ? changes : 0);
    streams.push(plain.ms);
    plainChanges.push(plain.changesMs);
    if (!source.change) pages.push((await runPlain(source, 'pages')).ms);
    figures.push(await runGateway(source, objects));
  }
  const syncMs = median(figures.map((each) => each.syncMs));
  const steady = median(figures.map((each) => each.steady));
  const live = median(figures.map((each) => each.live));
  const plainMs = median(streams);
  const rows: [string, string][] = [
    ['objects', `${objects} of 4 KB, median of ${runs}`],
    ['synced after', `${(syncMs / 1000).toFixed(2)} s, ${Math.round(objects / (syncMs / 1000))} objects/s`],
    [
      'plain loop, streaming list',
      `${(plainMs / 1000).toFixed(2)} s; the gateway takes ${(syncMs / plainMs).toFixed(2)} times as long`,
    ],
  ];
  if (pages.length > 0) {
    const pagesMs = median(pages);
    rows.push(['plain loop, pages', `${(pagesMs / 1000).toFixed(2)} s; ratio ${(syncMs / pagesMs).toFixed(2)}`]);
  }
  rows.push(
    ['gateway RSS', `${mib(median(figures.map((each) => each.peak)))} at its peak, ${mib(steady)} after 15 s`],
    ['without objects', `${mib(baseline.steady)}: ${Math.round((steady - baseline.steady) / objects)} bytes an object`],
    [
      'live heap',
      `${mib(live)}, without objects ${mib(baseline.live)}: ${Math.round((live - baseline.live) / objects)} bytes an object`,
    ],
    [
      'Redis memory',
      `${mib(median(figures.map((each) => each.redis)))}, ${Math.round(median(figures.map((each) => each.redis)) / objects)} bytes an object`,
    ],
  );
  if (source.change) {
    const ms = median(figures.map((each) => each.changesMs ?? NaN));
    const plain = median(plainChanges);
    rows.push(
      ['watch events', `${Math.round(changes / (ms / 1000))}/s into the view's version`],
      [
        'plain loop',
        `${Math.round(changes / (plain / 1000))}/s; the gateway takes ${(ms / plain).toFixed(2)} times as long`,
      ],
    );
  }
  process.stdout.write(`\n${source.name}\n${rows.map(([name, value]) => `  ${name.padEnd(28)}${value}`).join('\n')}\n`);
}

async function scripted(directory: string, count: number): Promise<Source & { stop: () => Promise<unknown> }> {
  const source = new TestProcess('test/bench/scripted-source.ts', [String(count)], {});
  const url = String((await source.line(({ msg }) => msg === 'listening'))['url']);
  const kubeconfig = join(directory, `scripted-${count}`);
  await writeFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'scripted', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'scripted', user: {} }],
      contexts: [{ name: 'scripted', context: { cluster: 'scripted', user: 'scripted' } }],
      'current-context': 'scripted',
    }),
  );
  return {
    name: 'scripted stream',
    kubeconfig,
    change: async (wanted) => {
      const answer = await fetch(`${url}/events?count=${wanted}`, { method: 'POST' });
      return ((await answer.json()) as { version: string }).version;
    },
    stop: () => source.kill(),
  };
}

/** Through the API, many at a time. */
async function fill(kubeconfig: string): Promise<void> {
  const cluster = await Cluster.connect(kubeconfig);
  await cluster.createNamespace('bench');
  let next = 0;
  const create = async (): Promise<void> => {
    for (let at = next++; at < objects; at = next++) {
      const metadata = {
        name: `object-${String(at).padStart(7, '0')}`,
        namespace: 'bench',
        labels: { app: `app-${at % 100}` },
      };
      await cluster.create(configMaps, { metadata, data: dataOf(at) });
    }
  };
  await Promise.all(Array.from({ length: 64 }, create));
  await cluster.close();
}

const directory = await mkdtemp(join(tmpdir(), 'cache-fill-'));
try {
  if (values.source !== 'real') {
    const source = await scripted(directory, objects);
    const empty = { ...(await scripted(directory, 0)) };
    const { change: _, ...quiet } = empty;
    await measure(source, quiet);
    await source.stop();
    await empty.stop();
  }
  if (values.source !== 'scripted') {
    const plane = await startControlPlane();
    try {
      const baseline = { name: 'empty', kubeconfig: plane.kubeconfig };
      const from = performance.now();
      const empty = await startControlPlane();
      await fill(plane.kubeconfig);
      process.stdout.write(`${objects} objects created in ${((performance.now() - from) / 1000).toFixed(0)} s\n`);
      await measure(
        { name: 'real apiserver', kubeconfig: plane.kubeconfig },
        { ...baseline, kubeconfig: empty.kubeconfig },
      );
      await empty.stop();
    } finally {
      await plane.stop();
    }
  }
} finally {
  await rm(directory, { recursive: true });
}
