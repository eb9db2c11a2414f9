import { join } from 'node:path';
import { expect } from 'vitest';
import { messageOf } from '../../src/core/index.ts';
import { untilCacheEqualsServer } from './cache-equals-server.ts';
import { type Cluster, configMaps, leases } from './cluster.ts';
import { ConfigMapChanges } from './config-map-changes.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { eventually } from './eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from './gateway-view.ts';
import { createSetting, type Listening, type Setting, startGateway, uniqueName, untilReady } from './levelhook.ts';
import { configMapsOf, type Observer, type ObserverSpec, startObservers } from './observer.ts';
import type { TestProcess } from './process.ts';
import { type Random, seededRandom } from './seeded-random.ts';
import type { Started } from './started.ts';

export interface FaultWorldOptions {
  /** The test's, and the gateways' unless they have another one. */
  readonly kubeconfig: string;
  /** The gateways', if their requests are told apart. Default: `kubeconfig`. */
  readonly gatewayKubeconfig?: string;
  readonly redisUrl: string;
  /**
   * A plain URL of the Redis that holds the cache at the time of the call, when `redisUrl` is none. undefined: the
   * cache is on several nodes, and compared by versions alone. Default: `redisUrl`.
   */
  readonly cacheUrl?: () => string | undefined;
  /**
   * Whether no other test writes ConfigMaps at this apiserver: then the cache is compared field by field. Default
   * false.
   */
  readonly alone?: boolean;
  /** More than one elect a leader by a Lease in the world's namespace. Default 1. */
  readonly gateways?: number;
  /** Whether each gateway has proxies of its own to the apiserver and to Redis, which a test can cut. Default false. */
  readonly proxies?: boolean;
  /** More of the environment of the gateways. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Controllers in the process of the function, each over all objects. Default 1. */
  readonly observers?: number;
  /** What the observers declare beside `configMapsOf` the namespace. */
  readonly observer?: Omit<Partial<ObserverSpec>, 'name' | 'for' | 'onlyIn'>;
  /** Starts more functions, and gives their URLs. Default: none. */
  readonly functions?: (setting: Setting) => Promise<readonly string[]>;
  /** Whether the function reads through the gateways, and not from Redis. Default false. */
  readonly readsThroughGateway?: boolean;
  /** Default 100. */
  readonly objects?: number;
  /** While objects change. Default 50. */
  readonly changesPerSecond?: number;
  /**
   * Whether objects are deleted, too. False for faults after which nobody can know that a deleted object ever was.
   * Default true.
   */
  readonly deletions?: boolean;
}

/** A gateway of a world. */
export interface WorldGateway extends Listening {
  readonly proxies?: { readonly toApiserver: CuttingProxy; readonly toRedis: CuttingProxy };
}

/**
 * Gateways and a function in processes of their own, over ConfigMaps that change at random: the world to which the
 * tables of faults do harm. A fault is done `underChanges`, and `untilAllIsWell` checks after it that
 *
 * - each object was reconciled at its last version, or after its deletion, by each observer,
 * - the cache equals the server,
 * - no key has run twice at a time since the world began,
 * - all gateways are ready, and exactly one leads,
 * - no run is left on record,
 * - and the world goes on: a new object is reconciled.
 *
 * Rows of a table may share a world as long as each leaves it so. `stopInOrder` is the last test of a world.
 */
export class FaultWorld {
  readonly namespace: string;
  readonly cluster: Cluster;
  readonly setting: Setting;
  readonly random: Random;
  readonly changes: ConfigMapChanges;
  /** Those that run: a test that ends one calls `replace`, or removes it. */
  readonly gateways: WorldGateway[] = [];
  readonly #options: FaultWorldOptions;
  readonly #started: Started;
  #observers: readonly Observer<TestProcess>[] = [];
  #functionUrls: readonly string[] = [];
  #objects = 0;

  private constructor(name: string, options: FaultWorldOptions, started: Started, cluster: Cluster, namespace: string) {
    this.#options = options;
    this.#started = started;
    this.cluster = cluster;
    this.namespace = namespace;
    const { gatewayKubeconfig = options.kubeconfig, redisUrl, objects = 100, deletions = true } = options;
    this.setting = createSetting({ kubeconfig: gatewayKubeconfig, redisUrl });
    this.random = seededRandom(name);
    this.changes = new ConfigMapChanges(cluster, namespace, { count: objects, random: this.random, deletions });
  }

  /**
   * Begins one: all objects are there, and the gateways are ready.
   * @param name the test's: the seed of the changes is printed and repeated by it.
   */
  static async start(started: Started, name: string, options: FaultWorldOptions): Promise<FaultWorld> {
    const namespace = uniqueName('fault');
    const cluster = await started.cluster(options.kubeconfig, namespace);
    const world = new FaultWorld(name, options, started, cluster, namespace);
    const { gateways = 1, observers = 1, readsThroughGateway = false } = options;
    const names = observers === 1 ? ['observer'] : Array.from({ length: observers }, (_, at) => `observer-${at}`);
    // In a cluster that is shared, the objects of other tests are none of theirs.
    const own = { ...configMapsOf(namespace), for: { resource: configMaps, namespaces: [namespace] } };
    const specs = names.map((each) => ({ ...own, ...options.observer, name: each }));
    const setting = readsThroughGateway ? { ...world.setting, redisUrl: '' } : world.setting;
    [world.#observers] = await Promise.all([startObservers(setting, specs), world.changes.createAll()]);
    for (const observer of world.#observers) started.keep(observer);
    const more = (await options.functions?.(world.setting)) ?? [];
    world.#functionUrls = [...world.#observers.map(({ url }) => url), ...more];
    await Promise.all(Array.from({ length: gateways }, () => world.addGateway()));
    await eventually(() => world.leader());
    return world;
  }

  get observers(): readonly Observer<TestProcess>[] {
    return this.#observers;
  }

  /** The only observer, or the first. */
  get observer(): Observer<TestProcess> {
    return this.#observers[0] as Observer<TestProcess>;
  }

  /** The only gateway, or the first. */
  get gateway(): WorldGateway {
    return this.gateways[0] as WorldGateway;
  }

  /** Starts one more, and waits until it is ready. */
  async addGateway(): Promise<WorldGateway> {
    const added = await this.startGateway();
    this.gateways.push(added);
    await untilReady(added.url);
    return added;
  }

  /** Starts one that the world does not count among its own, and that need not be ready yet. */
  async startGateway(): Promise<WorldGateway> {
    const { proxies = false, gateways = 1, variables } = this.#options;
    const own = proxies ? await this.#startProxies() : undefined;
    const election = gateways > 1 ? { LEVELHOOK_LEASE: `${this.namespace}/levelhook` } : {};
    const gateway = this.#started.keep(
      await startGateway({ ...this.setting, ...own?.setting }, this.#functionUrls, { ...election, ...variables }),
    );
    return own ? { ...gateway, proxies: own.proxies } : gateway;
  }

  /** Starts another one in the place of one that has ended. */
  async replace(gone: WorldGateway): Promise<WorldGateway> {
    this.gateways.splice(this.gateways.indexOf(gone), 1);
    return this.addGateway();
  }

  /** The one gateway that leads. @throws when none says so, or more than one. */
  async leader(): Promise<WorldGateway> {
    const status = await Promise.all(this.gateways.map(({ url }) => metric(url, 'leader_election_master_status')));
    const leading = this.gateways.filter((_, at) => this.gateways.length === 1 || status[at] === 1);
    expect(leading).toHaveLength(1);
    return leading[0] as WorldGateway;
  }

  /** A metric over all series of all gateways. */
  async sum(name: string): Promise<number> {
    const values = await Promise.all(this.gateways.map(({ url }) => metric(url, name)));
    return values.reduce((total, each) => total + each, 0);
  }

  /** Does `fault` while objects change; returns when all changes are acknowledged. */
  async underChanges(fault: () => Promise<void>): Promise<void> {
    await this.changes.keepChanging(this.#options.changesPerSecond ?? 50, fault);
  }

  /** See the class. */
  async untilAllIsWell(): Promise<void> {
    await this.#untilReconciled();
    await this.untilCacheEqualsServer();
    expect(this.#observers.flatMap(({ overlaps }) => overlaps)).toEqual([]);
    await Promise.all(this.gateways.map(({ url }) => untilReady(url)));
    await eventually(() => this.leader());
    await eventually(async () => {
      for (const { name } of this.#observers) {
        expect(await runsOnRecord(this.setting, this.cluster, name)).toEqual([]);
      }
    });
    await this.#goesOn();
  }

  async untilCacheEqualsServer(): Promise<void> {
    const { setting, cluster, namespace } = this;
    const { alone = false, cacheUrl = () => setting.redisUrl } = this.#options;
    const redisUrl = cacheUrl();
    if (alone && redisUrl !== undefined) {
      const indexes = this.#options.observer?.indexes?.map(({ index }) => index) ?? [];
      await untilCacheEqualsServer({ ...setting, redisUrl }, cluster, [{ resource: configMaps, indexes }], 60_000);
      return;
    }
    await eventually(async () =>
      expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace)),
    );
  }

  /** All gateways stop with SIGTERM and exit with 0, and no Lease is held then. */
  async stopInOrder(): Promise<void> {
    const stopped = this.gateways.splice(0);
    expect(await Promise.all(stopped.map(({ process }) => process.kill('SIGTERM')))).toEqual(stopped.map(() => 0));
    const lease = await this.cluster.get(leases, { namespace: this.namespace, name: 'levelhook' });
    expect(lease?.spec?.holderIdentity ?? '').toBe('');
  }

  async #untilReconciled(): Promise<void> {
    for (const observer of this.#observers) {
      const isReconciled = async (): Promise<void> => expect(await this.changes.unreconciled(observer)).toEqual([]);
      await eventually(isReconciled, 120_000).catch(async (error: unknown) => {
        throw new Error(`${observer.name}: ${messageOf(error)}\n${await this.#standing()}`, { cause: error });
      });
    }
  }

  /** How the gateways say that they are, and what waits in them: for a test that has failed. */
  async #standing(): Promise<string> {
    const paths = this.gateways.flatMap(({ url }) => [`${url}/readyz?verbose`, `${url}/queues`]);
    const ask = async (url: string): Promise<string> => `${url}: ${await (await fetch(url)).text()}`;
    const answers = await Promise.all(paths.map((url) => ask(url).catch(messageOf)));
    return answers.join('\n');
  }

  async #goesOn(): Promise<void> {
    const name = `new-${(this.#objects += 1)}`;
    await this.cluster.create(configMaps, { metadata: { namespace: this.namespace, name } });
    const key = `${this.namespace}/${name}`;
    for (const observer of this.#observers) {
      await eventually(async () => expect(observer.seen({ key })).not.toEqual([]));
    }
  }

  async #startProxies() {
    const { kubeconfig, redisUrl } = this.setting;
    const toApiserver = await CuttingProxy.beforeApiserver(kubeconfig);
    const toRedis = await CuttingProxy.start(redisUrl);
    this.#started.add(() => Promise.all([toApiserver.stop(), toRedis.stop()]));
    const path = join(await this.#started.directory(), 'kubeconfig');
    return {
      proxies: { toApiserver, toRedis },
      setting: {
        kubeconfig: await toApiserver.kubeconfig(kubeconfig, path),
        redisUrl: `redis://127.0.0.1:${toRedis.port}`,
      },
    };
  }
}
