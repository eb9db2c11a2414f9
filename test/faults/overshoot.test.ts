import { readdir, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { runsOnRecord } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { PodWatch } from '../harness/pod-watch.ts';
import type { TestProcess } from '../harness/process.ts';
import { REPLICAS, SCALER, SCALER_TIMEOUT_SECONDS, startScaler } from '../harness/scaler.ts';
import { Started } from '../harness/started.ts';
import { type Tampering, TriggerProxy } from '../harness/trigger-proxy.ts';

const PODS = 200;
/** At this create the fault comes: acknowledged, and told by no outcome. */
const FAULT_AT = 100;
/** How much later than the function the gateway hears of a pod: long enough to make dozens in the dark. */
const LAG_MS = 400;
/** 20 by `npm run soak overshoot`. */
const RUNS = Number(process.env['OVERSHOOT_RUNS'] ?? 1);
const runs = Array.from({ length: RUNS }, (_, at) => at + 1);

/** A function that makes 200 pods, a gateway whose cache lags behind it, and a proxy between them. */
class Scene {
  readonly parent = 'web';
  readonly namespace = uniqueName('overshoot');
  readonly #started: Started;
  cluster!: Cluster;
  setting!: Setting;
  redis!: RedisServer;
  directory!: string;
  fn!: TestProcess;
  proxy!: TriggerProxy;
  watch!: PodWatch;
  gateway!: Awaited<ReturnType<typeof startGateway>>;

  constructor(started: Started) {
    this.#started = started;
  }

  async start({ pauseMs = 0 } = {}): Promise<void> {
    const started = this.#started;
    this.directory = await started.directory();
    this.redis = await startRedis({ appendOnly: true, directory: join(this.directory), ignoreEnvironment: true });
    started.add(() => this.redis.stop());
    const kubeconfig = inject('kubeconfig');
    this.cluster = await started.cluster(kubeconfig, this.namespace);
    const lag = await CuttingProxy.beforeApiserver(kubeconfig, LAG_MS);
    started.add(() => lag.stop());
    this.setting = createSetting({ kubeconfig, redisUrl: this.redis.url });
    const scaler = started.keep(await startScaler(this.setting, { namespace: this.namespace, pauseMs }));
    this.fn = scaler.process;
    this.proxy = new TriggerProxy(scaler.url, this.setting.secret);
    await this.proxy.open();
    started.add(() => this.proxy.close());
    this.setting = { ...this.setting, kubeconfig: await lag.kubeconfig(kubeconfig, join(this.directory, 'lagging')) };
    // Of other namespaces nothing: a proxy that answers 502 would open the breaker for other tests' objects.
    await writeFile(this.#cacheFile, JSON.stringify({ defaults: { namespaces: [this.namespace] } }));
    await this.startGateway();
    await untilReady(this.gateway.url);
    this.watch = await PodWatch.start(this.cluster, this.namespace, this.parent);
    started.add(() => this.watch.stop());
  }

  async startGateway(): Promise<void> {
    const variables = { LEVELHOOK_CACHE_FILE: this.#cacheFile };
    this.gateway = this.#started.keep(await startGateway(this.setting, [this.proxy.url], variables));
  }

  get #cacheFile(): string {
    return join(this.directory, 'cache.yaml');
  }

  /** Where Redis' file of today ends, and so what it would be without what comes now. */
  async redisLength(): Promise<number> {
    return (await stat(await this.#appendOnlyFile())).size;
  }

  /** Kills Redis, and starts it again with what its file held then. */
  async restoreRedis(length: number): Promise<void> {
    await this.redis.kill('SIGKILL');
    await truncate(await this.#appendOnlyFile(), length);
    await this.redis.start();
  }

  async #appendOnlyFile(): Promise<string> {
    const folder = join(this.directory, 'appendonlydir');
    const name = (await readdir(folder)).find((each) => each.endsWith('.incr.aof'));
    return join(folder, name ?? '');
  }

  /** Asks for the pods; returns when the create at which the fault comes has been acknowledged. */
  async scaleUp(): Promise<void> {
    const metadata = { namespace: this.namespace, name: this.parent };
    await this.cluster.create(configMaps, { metadata, data: { [REPLICAS]: String(PODS) } });
    await this.fn.line(({ msg, count }) => msg === 'created' && count === FAULT_AT);
  }

  /** Until nothing more will be made: all pods are there, and a run has seen that. */
  async settled(): Promise<number> {
    await eventually(async () => {
      expect(this.watch.names.size).toBeGreaterThanOrEqual(PODS);
      expect(await runsOnRecord(this.setting, this.cluster, SCALER)).toEqual([]);
    });
    await sleep(3 * LAG_MS);
    await eventually(async () => expect(await runsOnRecord(this.setting, this.cluster, SCALER)).toEqual([]));
    return this.watch.most;
  }
}

/** A scene of its own for each test, so that several play at once: they wait most of the time. */
async function inScene(options: { pauseMs?: number }, play: (scene: Scene) => Promise<void>): Promise<void> {
  const started = new Started();
  try {
    const scene = new Scene(started);
    await scene.start(options);
    await play(scene);
  } finally {
    await started.stop();
  }
}

/** What happens when a hundred pods are made, and what that needs besides. */
const FAULTS: Record<
  string,
  { pauseMs?: number; before?: Tampering; fault: (scene: Scene, redisLength: number) => Promise<void> }
> = {
  'the gateway is killed with SIGKILL, and another takes over': {
    fault: async (scene) => {
      await scene.gateway.process.kill('SIGKILL');
      await scene.startGateway();
    },
  },
  'the connection is cut': {
    fault: async (scene) => scene.proxy.cut(),
  },
  'the outcome does not arrive before the deadline': {
    before: 'keep-answer',
    fault: async (scene) => {
      await scene.gateway.process.line(({ msg, reason }) => msg === 'trigger' && reason === 'timeout');
      scene.proxy.tampering = 'pass';
    },
  },
  'the function needs more time than it has': {
    pauseMs: 30,
    fault: async () => {},
  },
  'a proxy answers 502 after the writes': {
    before: 'answer-502',
    fault: async (scene) => {
      const isProxys = (error: unknown): boolean => String(error).includes('answered 502');
      await scene.gateway.process.line(({ msg, error }) => msg === 'trigger' && isProxys(error));
      scene.proxy.tampering = 'pass';
    },
  },
  'Redis loses its last second': {
    // A second before the fault the run had begun; what is lost is that, and that it was ever asked for.
    pauseMs: 10,
    fault: (scene, redisLength) => scene.restoreRedis(redisLength),
  },
};

describe.each(Object.entries(FAULTS))(
  '200 pods, of which 100 are made when %s',
  (_what, { pauseMs = 0, before, fault }) => {
    it.concurrent.for(runs)('are never more than 200 (run %i)', { timeout: 300_000 }, async (_run, { expect }) => {
      await inScene({ pauseMs }, async (scene) => {
        scene.proxy.tampering = before ?? 'pass';
        const redisLength = await scene.redisLength();
        await scene.scaleUp();
        await fault(scene, redisLength);
        expect(await scene.settled()).toBe(PODS);
      });
    });
  },
);

/** The same line with one of its guards taken away: the tests above can fail. */
describe('more than 200 pods are made', () => {
  it('without the barrier: the next run does not see what the last one made', () =>
    inScene({}, async (scene) => {
      scene.proxy.tampering = 'forget-writes';
      await scene.scaleUp();
      expect(await scene.settled()).toBeGreaterThan(PODS);
    }));

  it('without the deadline: the last run is still making them', () =>
    // Longer than the deadline and its margin.
    inScene({ pauseMs: (SCALER_TIMEOUT_SECONDS * 1000 * 2.5) / PODS }, async (scene) => {
      scene.proxy.tampering = 'forget-deadline';
      await scene.scaleUp();
      expect(await scene.settled()).toBeGreaterThan(PODS);
    }));
});
