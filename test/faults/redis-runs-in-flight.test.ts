import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it, type TestContext } from 'vitest';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps, leases } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord, storyOf } from '../harness/gateway-view.ts';
import { HeldRuns } from '../harness/held-runs.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import type { Line } from '../harness/process.ts';
import { ROUNDS, SEER, sightsOf, startSeer, unfinished } from '../harness/seer.ts';
import { Started } from '../harness/started.ts';

const OTHERS = Array.from({ length: 20 }, (_, at) => `other-${at}`);
const waits = ({ msg }: Line): boolean => String(msg).startsWith('unrecorded runs');

/** A gateway on a Redis of its own, and functions whose runs the test holds. */
class Scene {
  readonly started: Started;
  readonly namespace = uniqueName('in-flight');
  redis!: RedisServer;
  cluster!: Cluster;
  setting!: Setting;
  gateway!: Listening;
  functions!: readonly HeldRuns[];
  #data!: string;

  private constructor(started: Started) {
    this.started = started;
  }

  /**
   * Each key has run, and none is in flight.
   * @param timeouts of the functions in seconds, by name.
   * @param held the names of objects whose runs the test may hold, beside `OTHERS`.
   */
  static async start(
    started: Started,
    timeouts: Readonly<Record<string, number>>,
    held: readonly string[],
  ): Promise<Scene> {
    const scene = new Scene(started);
    const { namespace } = scene;
    const directory = await started.directory();
    scene.#data = join(directory, 'appendonlydir');
    const redis = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
    started.add(() => redis.stop());
    scene.redis = redis;
    scene.cluster = await started.cluster(inject('kubeconfig'), namespace);
    scene.setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    scene.functions = Object.entries(timeouts).map(
      ([name, timeoutSeconds]) => new HeldRuns(name, scene.cluster, namespace, timeoutSeconds),
    );
    for (const each of scene.functions) await started.open(each);
    const names = [...held, ...OTHERS];
    await Promise.all(names.map((name) => scene.cluster.create(configMaps, { metadata: { namespace, name } })));
    await scene.startGateway();
    for (const each of scene.functions) await each.untilBegun(0, names);
    await untilIdle(scene.gateway.url);
    return scene;
  }

  async startGateway(isReady = true): Promise<void> {
    const urls = this.functions.map(({ url }) => url);
    this.gateway = this.started.keep(await startGateway(this.setting, urls, { LEVELHOOK_DRAIN_SECONDS: '0' }));
    if (isReady) await untilReady(this.gateway.url);
  }

  async restartRedis(data: 'kept' | 'empty'): Promise<void> {
    await this.redis.kill('SIGKILL');
    if (data === 'empty') await rm(this.#data, { recursive: true });
    await this.redis.start();
  }

  /** What the gateway has logged of waits for runs that Redis may not know of. */
  get waits(): Line[] {
    return this.gateway.process.lines.filter(waits);
  }

  /** The cluster's record of the Redis process whose runs may be in flight. */
  async dispatchLease() {
    const { items } = await this.cluster.list(leases, 'kube-system');
    const { keyPrefix } = this.setting;
    return items.find(({ metadata }) => metadata.annotations?.['levelhook.dev/registry']?.includes(keyPrefix));
  }
}

/** The gateway remembers its runs, puts them back on record, and lets all other keys run. */
describe('a restart of Redis beside a gateway that goes on', () => {
  const DATA = ['kept', 'empty'] as const;
  const started = new Started();
  let scene: Scene;

  beforeAll(async () => {
    // The test ends the runs of the first, and waits for no end of those of the second: both may take long, so that no
    // machine is too slow for the others to run before. A key that was cut off runs again when its time is over.
    scene = await Scene.start(started, { answered: 900, 'cut-off': 900, expired: 6 }, DATA);
  });

  afterAll(() => started.stop());

  it.for(DATA)(
    'after a restart of Redis (data: %s) a key in flight waits, no other key does, and no outcome is stale or lost',
    async (data) => {
      const { functions, gateway } = scene;
      const [answered, cutOff, expired] = functions as [HeldRuns, HeldRuns, HeldRuns];
      await answered.hold(data);
      await cutOff.hold(data, { isCutOff: true });
      await expired.hold(data, { isCutOff: true, untilDeadline: true });
      const from = functions.map(({ begun }) => begun.length);
      await scene.restartRedis(data);
      // All keys are due again, these as well because they have changed.
      for (const name of [...OTHERS, data]) await answered.change(name);
      for (const [at, each] of functions.entries()) await each.untilBegun(from[at] ?? 0, OTHERS);
      for (const [at, each] of [answered, cutOff].entries()) {
        expect(each.isWorking(data)).toBe(true);
        expect(each.begun.slice(from[at])).not.toContain(data);
      }
      answered.release(data);
      await answered.untilBegun(from[0] ?? 0, [data]);
      await expired.untilBegun(from[2] ?? 0, [data]);
      expect(functions.map(({ most }) => most)).toEqual([1, 1, 1]);
      expect(scene.waits).toEqual([]);
      const labels = { controller: answered.name };
      await eventually(async () => expect(await runsOnRecord(scene.setting, scene.cluster, answered.name)).toEqual([]));
      for (const outcomes of ['stale', 'lost']) {
        expect(await metric(gateway.url, `levelhook_${outcomes}_outcomes_total`, labels)).toBe(0);
      }
    },
  );
});

const TIMEOUT_SECONDS = 6;
/** As long as a run may take: what begins too early meets it. */
const WHOLE = { untilDeadline: true } as const;

/**
 * Checks that no run began between the gateway's word that it waits and the deadline of the runs that it does not know.
 * The times are those of the gateway's log, so a slow machine does not change the result.
 */
function expectWait({ waits: [line] }: Scene, fn: HeldRuns): void {
  const saidMs = Date.parse(String(line?.['time']));
  const endMs = saidMs - Number(line?.['seconds']) * 1000 + TIMEOUT_SECONDS * 1000;
  const later = fn.begunAtMs.filter((atMs) => atMs > saidMs);
  expect(later).not.toEqual([]);
  expect(Math.min(...later)).toBeGreaterThan(endMs);
}

interface Row {
  /** Ends the sentence that begins with "an empty Redis". */
  readonly name: string;
  readonly run: (scene: Scene, fn: HeldRuns) => Promise<void>;
}

/** A gateway that starts knows no runs: the Lease in the cluster tells whether there can be any (ADR 0006). */
const rows: readonly Row[] = [
  {
    name: 'causes no wait at a first start and after an ordered stop',
    async run(scene, fn) {
      const former = scene.gateway;
      expect((await scene.dispatchLease())?.spec?.holderIdentity).toMatch(/^[0-9a-f]{40}$/);
      expect(scene.waits).toEqual([]);
      expect(await former.process.kill('SIGTERM')).toBe(0);
      expect(await scene.dispatchLease()).toBeUndefined();
      await scene.restartRedis('empty');
      const from = fn.begun.length;
      await scene.startGateway();
      await fn.untilBegun(from, ['long']);
      expect(scene.waits).toEqual([]);
    },
  },
  {
    name: 'causes a wait for the rest of a run after a stop that did not wait for the run',
    async run(scene, fn) {
      await fn.hold('long', WHOLE);
      await scene.gateway.process.kill('SIGTERM');
      expect((await scene.dispatchLease())?.spec).toEqual({ renewTime: expect.any(String) as string });
      await scene.restartRedis('empty');
      const from = fn.begun.length;
      await scene.startGateway();
      await fn.untilBegun(from, ['long']);
      expect(scene.waits).toHaveLength(1);
      expectWait(scene, fn);
    },
  },
  {
    name: 'after a gateway that was killed causes a wait, and a second empty Redis a wait for the rest of it only',
    async run(scene, fn) {
      await fn.hold('long', WHOLE);
      await scene.gateway.process.kill('SIGKILL');
      await scene.restartRedis('empty');
      const from = fn.begun.length;
      const startedMs = Date.now();
      await scene.startGateway(false);
      const first = await scene.gateway.process.line(waits);
      // The wait begins with the gateway, which logs in whole seconds how much of it is over.
      expect(Date.parse(String(first['time'])) - Number(first['seconds']) * 1000).toBeGreaterThan(startedMs - 1000);
      await sleep(3000);
      await scene.restartRedis('empty');
      // On a slow machine the runs of the first wait may have begun before.
      await eventually(async () => expect(scene.waits).toHaveLength(2));
      await fn.untilBegun(from, ['long', ...OTHERS]);
      expect(scene.waits).toHaveLength(2);
      expectWait(scene, fn);
      // By then so much of the wait was over.
      expect(Number(scene.waits[1]?.['seconds'])).toBeGreaterThanOrEqual(2);
    },
  },
];

// Side by side: they wait most of their time.
describe.concurrent('a Redis that was restarted', () => {
  for (const { name, run } of rows) {
    it(`an empty Redis ${name}, and no key runs twice at once`, { timeout: 240_000 }, async ({ onTestFinished }) => {
      const started = new Started();
      onTestFinished(() => started.stop());
      const scene = await Scene.start(started, { held: TIMEOUT_SECONDS }, ['long']);
      const [fn] = scene.functions as [HeldRuns];
      await run(scene, fn);
      expect(fn.most).toBe(1);
    });
  }

  it('a run sees what runs before it have written, through restarts of Redis', { timeout: 420_000 }, runsSeeWrites);
});

/** How often Redis is restarted; the long form has more. */
const RESTARTS = 4 * Number(process.env['REDIS_FAULTS_ROUNDS'] ?? 1);

async function runsSeeWrites({ onTestFinished }: TestContext): Promise<void> {
  const [namespace, parents, rounds] = [uniqueName('seen'), 20, 2 * RESTARTS + 2];
  const started = new Started();
  onTestFinished(() => started.stop());
  const directory = await started.directory();
  const redis = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
  started.add(() => redis.stop());
  const cluster = await started.cluster(inject('kubeconfig'), namespace);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
  // Runs go on while Redis is away, and write while the gateway, which hears later, lists the views again.
  const fn = started.keep(await startSeer(setting, namespace, 2000));
  const lag = await CuttingProxy.beforeApiserver(setting.kubeconfig, 120);
  started.add(() => lag.stop());
  const lagging = { ...setting, kubeconfig: await lag.kubeconfig(setting.kubeconfig, join(directory, 'lagging')) };
  const gateway = started.keep(await startGateway(lagging, [fn.url], { LEVELHOOK_LOG_TRIGGERS: 'false' }));
  await untilReady(gateway.url);
  const names = Array.from({ length: parents }, (_, at) => `parent-${at}`);
  for (const name of names) {
    await cluster.create(configMaps, { metadata: { namespace, name }, data: { [ROUNDS]: String(rounds) } });
  }
  for (let restart = 0; restart < RESTARTS; restart += 1) {
    const count = sightsOf(fn.process).length;
    await eventually(async () => expect(sightsOf(fn.process).length).toBeGreaterThan(count + parents), 60_000, 10);
    await redis.kill('SIGKILL');
    // With its data, and empty, in turn.
    if (restart % 2 === 1) await rm(join(directory, 'appendonlydir'), { recursive: true });
    await redis.start();
  }
  const behind = (): string[] => unfinished(fn.process, names, rounds);
  await eventually(async () => expect(behind()).toEqual([]), 240_000, 200).catch(async () => {
    const story = await storyOf(gateway.url, SEER, `${namespace}/${behind()[0]}`);
    throw new Error(`${behind().join(', ')} have not run ${rounds} rounds, and the first: ${story}`);
  });
  expect(sightsOf(fn.process).filter(({ missed, undead }) => missed || undead)).toEqual([]);
  expect(gateway.process.lines.filter(waits)).toEqual([]);
}
