import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import type { Trigger } from '../../src/contract/index.ts';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import type { Line } from '../harness/process.ts';
import { done, RawFunction } from '../harness/raw-function.ts';
import { ROUNDS, sightsOf, startSeer } from '../harness/seer.ts';
import { Started } from '../harness/started.ts';

const TIMEOUT_SECONDS = 15;
/** Longer than a gateway needs to be back after a restart of Redis, less than a run may take. */
const LONG_MS = 10_000;
const OTHERS = Array.from({ length: 20 }, (_, at) => `other-${at}`);
const waits = ({ msg }: Line): boolean => String(msg).startsWith('unrecorded runs');

describe('a restart of Redis while a run is in flight', { timeout: 180_000 }, () => {
  let started: Started;
  let namespace: string;
  let directory: string;
  let redis: RedisServer;
  let cluster: Cluster;
  let setting: Setting;
  let fn: RawFunction;
  let gateway: Listening;
  /** The keys whose runs began, in order. */
  let begun: string[];
  /** The next run of the key `long` is a long one, and ends so for the gateway. */
  let longRun: 'answered' | 'cut off' | undefined;
  /** Long runs at work, and how many there were at a time at most, with other runs of their key. */
  let working: number;
  let most: number;

  beforeEach(async () => {
    started = new Started();
    namespace = uniqueName('in-flight');
    directory = await mkdtemp(join(tmpdir(), 'levelhook-in-flight-'));
    started.add(() => rm(directory, { recursive: true }));
    redis = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
    started.add(() => redis.stop());
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    [begun, longRun, working, most] = [[], undefined, 0, 0];
    const { apiVersion, kind } = configMaps;
    fn = new RawFunction({
      name: 'raw',
      for: { apiVersion, kind, namespaces: [namespace] },
      concurrency: 10,
      timeoutSeconds: TIMEOUT_SECONDS,
    });
    fn.onTrigger = (trigger, response) => void run(trigger, response);
    await fn.open();
    started.add(() => fn.close());
    await start();
    for (const name of ['long', ...OTHERS]) await cluster.create(configMaps, { metadata: { namespace, name } });
    await untilBegun(0, ['long', ...OTHERS]);
    await untilIdle(gateway.url);
  });

  afterEach(() => started.stop());

  async function run({ requests }: Trigger, response: ServerResponse): Promise<void> {
    const { name = '' } = requests[0] ?? {};
    begun.push(name);
    if (name === 'long') most = Math.max(most, working + 1);
    if (name === 'long' && longRun) {
      const end = longRun;
      longRun = undefined;
      working += 1;
      if (end === 'cut off') response.destroy();
      await sleep(LONG_MS);
      working -= 1;
    }
    if (!response.destroyed) done(response, response.req);
  }

  async function start(): Promise<void> {
    gateway = started.keep(await startGateway(setting, [fn.url]));
    await untilReady(gateway.url);
  }

  async function restartRedis(kept: boolean): Promise<void> {
    await redis.kill('SIGKILL');
    if (!kept) await rm(join(directory, 'appendonlydir'), { recursive: true });
    await redis.start();
  }

  const change = (name: string) =>
    cluster.patch(configMaps, { namespace, name }, { data: { at: String(machineMs()) } });

  async function beginLong(end: 'answered' | 'cut off'): Promise<void> {
    longRun = end;
    await change('long');
    await eventually(async () => expect(working).toBe(1));
  }

  const untilBegun = (from: number, names: readonly string[]) =>
    eventually(async () => expect(names.filter((name) => !begun.includes(name, from))).toEqual([]), 60_000, 10);

  it.each([
    { kept: true, end: 'answered' as const, what: 'with its data' },
    { kept: false, end: 'answered' as const, what: 'empty' },
    { kept: true, end: 'cut off' as const, what: 'with its data, and the answer was cut off' },
    { kept: false, end: 'cut off' as const, what: 'empty, and the answer was cut off' },
  ])('$what: its key waits, and no other', async ({ kept, end, what }) => {
    await beginLong(end);
    const from = begun.length;
    await restartRedis(kept);
    const restartedMs = machineMs();
    for (const name of OTHERS) await change(name);
    await eventually(async () => expect(begun.length).toBeGreaterThan(from), 60_000, 10);
    const firstMs = machineMs() - restartedMs;
    await untilBegun(from, OTHERS);
    expect(working).toBe(1);
    process.stdout.write(`redis-restart-in-flight, ${what}: the first run ${(firstMs / 1000).toFixed(1)} s after it\n`);
    expect(begun.slice(from)).not.toContain('long');
    await untilBegun(from, ['long']);
    expect([working, most]).toEqual([0, 1]);
    expect(gateway.process.lines.filter(waits)).toEqual([]);
    await untilIdle(gateway.url);
  });

  it('and its outcome is neither stale nor lost', async () => {
    await beginLong('answered');
    const from = begun.length;
    await restartRedis(false);
    await change('long');
    await untilBegun(from, ['long']);
    expect([working, most]).toEqual([0, 1]);
    await untilIdle(gateway.url);
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(text).not.toMatch(/levelhook_(stale|lost)_outcomes_total\{.*\} [1-9]/);
  });

  it('soon after a start that had to wait: only for the rest of that', async () => {
    await gateway.process.kill('SIGKILL');
    await restartRedis(false);
    const from = begun.length;
    gateway = started.keep(await startGateway(setting, [fn.url]));
    expect((await gateway.process.line(waits))['seconds']).toBe(0);
    await sleep(5000);
    expect(begun.length).toBe(from);
    await restartRedis(false);
    await untilBegun(from, OTHERS);
    const waited = gateway.process.lines.filter(waits).map((line) => Number(line['seconds']));
    expect(waited).toHaveLength(2);
    expect(waited[1]).toBeGreaterThanOrEqual(4);
  });

  it('when another gateway may have begun it: all keys wait', async () => {
    await beginLong('answered');
    const { process: former } = gateway;
    await start();
    // Until then it would take an empty Redis for its own again, and the other gateway would stop.
    await former.line(({ msg }) => msg === 'stopping');
    const from = begun.length;
    await restartRedis(false);
    for (const name of OTHERS) await change(name);
    await untilBegun(from, ['long', ...OTHERS]);
    expect([working, most]).toEqual([0, 1]);
    expect(gateway.process.lines.filter(waits)).toHaveLength(1);
  });
});

it('a run sees what runs before it have written, through restarts of Redis', { timeout: 180_000 }, async () => {
  const [namespace, parents, rounds] = [uniqueName('seen'), 20, 14];
  const started = new Started();
  try {
    const directory = await mkdtemp(join(tmpdir(), 'levelhook-seen-'));
    started.add(() => rm(directory, { recursive: true }));
    const redis = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
    started.add(() => redis.stop());
    const cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    // Runs go on while Redis is away, and write while the gateway, which hears later, lists the views again.
    const fn = started.keep(await startSeer(setting, namespace, 2000));
    const { clusters } = parse(await readFile(setting.kubeconfig, 'utf8')) as {
      clusters: { cluster: { server: string } }[];
    };
    const lag = await CuttingProxy.start(clusters[0]?.cluster.server ?? '', 120);
    started.add(() => lag.stop());
    const lagging = { ...setting, kubeconfig: await lag.kubeconfig(setting.kubeconfig, join(directory, 'lagging')) };
    const gateway = started.keep(await startGateway(lagging, [fn.url], { LEVELHOOK_LOG_TRIGGERS: 'false' }));
    await untilReady(gateway.url);
    for (let at = 0; at < parents; at += 1) {
      const metadata = { namespace, name: `parent-${at}` };
      await cluster.create(configMaps, { metadata, data: { [ROUNDS]: String(rounds) } });
    }
    for (const kept of [true, false, true, false, true, false]) {
      const count = sightsOf(fn.process).length;
      await eventually(async () => expect(sightsOf(fn.process).length).toBeGreaterThan(count + parents), 60_000, 10);
      await redis.kill('SIGKILL');
      if (!kept) await rm(join(directory, 'appendonlydir'), { recursive: true });
      await redis.start();
    }
    const seen = (): number => new Set(sightsOf(fn.process).map(({ parent, round }) => `${parent} ${round}`)).size;
    await eventually(async () => expect(seen()).toBe(parents * rounds), 120_000, 200);
    expect(sightsOf(fn.process).filter(({ missed, undead }) => missed || undead)).toEqual([]);
    expect(gateway.process.lines.filter(waits)).toEqual([]);
  } finally {
    await started.stop();
  }
});
