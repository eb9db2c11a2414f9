import { messageOf, objectNamed, originOf, type Resource, type Runtime, tenantNamed } from '../../core/index.ts';
import type { Description } from '../../contract/index.ts';
import { LiveAccounts } from '../controller/access/live-accounts.ts';
import { ReaderUsers } from '../controller/access/reader-users.ts';
import type { TokenClaims } from '../controller/access/token.ts';
import { TokenKeys } from '../controller/access/token-keys.ts';
import type { GatewayWriter } from '../informer/cache/gateway-writer.ts';
import type { Informer } from '../informer/cache/informer.ts';
import { Informers } from '../informer/cache/informers.ts';
import { CpuBudgets } from '../controller/cel/cpu-budget.ts';
import type { GatewayConfig } from '../../ground/config/config.ts';
import type { ConfiguredFiles } from '../../ground/config/files.ts';
import type { RunningController } from '../controller/running/controller.ts';
import { notesOf } from '../controller/running/controller-state.ts';
import { ControllerFactory, type FunctionAccess } from '../controller/running/controller-factory.ts';
import type { ControllerSpec } from '../controller/running/controller-spec.ts';
import { type ControllerEvents, Controllers } from '../controller/running/controllers.ts';
import { MemoryShares } from '../../ground/redis/memory-shares.ts';
import { ConfiguredFunctions } from '../registration/configured-functions.ts';
import { DeclaredFunctions } from '../registration/declared-functions.ts';
import { FunctionResolver } from '../registration/function-resolver.ts';
import { FunctionStatusWriter } from '../registration/function-status-writer.ts';
import { liveUid } from '../registration/live-uid.ts';
import { RightsWatch } from '../registration/rights-watch.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { DispatchLease } from '../recovery/dispatch-lease.ts';
import { GarbageCollector, isGarbage } from '../recovery/garbage-collection.ts';
import type { KnownParts, Need } from '../election/leader-handover.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { HealthWarning } from './health.ts';
import { Progress } from './progress.ts';
import { Recovery } from '../recovery/recovery.ts';
import { RedisHealth } from './redis-health.ts';

export interface ManagerOptions {
  readonly runtime: Runtime;
  readonly config: GatewayConfig;
  readonly files: ConfiguredFiles;
  readonly cluster: Pick<ClusterConnection, 'client' | 'identity' | 'kubernetes' | 'location'>;
  readonly writer: GatewayWriter;
  readonly urls: Pick<FunctionAccess, 'cacheUrl' | 'callbackUrl'>;
  readonly events: ManagerEvents;
  /** Aborted when the gateway begins to stop. */
  readonly ending: AbortSignal;
}

export interface ManagerEvents extends Pick<ControllerEvents, 'onRunning'> {
  /** A controller is no more, and its data is removed. */
  readonly onForgotten: (id: string) => Promise<void>;
}

/** After the end of a controller its last requests have ended. */
const LATE_MS = 30_000;

/**
 * Holds the controllers of a gateway, their declarations, the informers that wake them, and the access of functions to
 * reads. It also watches over all of them: recovery from lost data, the health of Redis, and progress. The constructor
 * starts nothing.
 *
 * The start order is `start`, `readerUsers`, `declared`, `configured`; then `lead` whenever this gateway is elected.
 * The stop order is the reverse, with the controllers between `declared` and `readerUsers`.
 */
export class Manager implements KnownParts {
  readonly tokenKeys: TokenKeys;
  /** The ServiceAccounts of ReconcileFunctions, whose tokens end with them. */
  readonly accounts: LiveAccounts;
  /** Undefined when functions get none. */
  readonly readerUsers: ReaderUsers | undefined;
  readonly informers: Informers;
  readonly controllers: Controllers;
  readonly recovery: Recovery;
  readonly redisHealth: RedisHealth;
  /** Keeps one namespace from taking all of Redis' memory. */
  readonly memory: MemoryShares;
  readonly progress: Progress;
  /** Functions whose URLs are in the settings. */
  readonly configured: ConfiguredFunctions;
  /** ReconcileFunctions; undefined when the settings say that there are none. */
  readonly declared: DeclaredFunctions | undefined;
  readonly #options: ManagerOptions;
  readonly #factory: ControllerFactory;
  readonly #garbage: GarbageCollector;
  readonly #cpuBudgets = new CpuBudgets();
  /** Only the leader writes to views and statuses, and removes unused data from Redis. */
  readonly #leads = (): boolean => this.#options.writer.term !== undefined;
  /** The ids of the controllers of configured functions, once each function has had its controller. */
  #configuredIds: ReadonlySet<string> | undefined;

  constructor(options: ManagerOptions) {
    const { cluster, config, ending, events, runtime, writer } = options;
    const leads = this.#leads;
    const { client, location } = cluster;
    this.#options = options;
    const { callbackRing, keyRing: ring } = options.files;
    this.tokenKeys = new TokenKeys({ ring, callbackRing, cluster: location, clock: runtime.clock });
    this.accounts = new LiveAccounts({
      client,
      clock: runtime.clock,
      onReplaced: ({ controller, uid }) => {
        // The declaration with the new account may have been found already, while runs of the old one end.
        if (this.controllers.known().get(controller)?.account?.uid === uid) this.declared?.again(controller, 'review');
      },
    });
    const userRing = ring ?? callbackRing;
    this.readerUsers =
      config.redisUsers.length > 0 && userRing
        ? new ReaderUsers({
            runtime,
            location,
            ring: userRing,
            namespaces: config.redisUsers,
            mayCome: (id) => this.mayCome(id),
            leads,
          })
        : undefined;
    this.memory = new MemoryShares({
      redis: location.redis,
      runtime,
      holders: () => [
        ...this.informers.all().map(({ view }) => view),
        ...this.controllers.running().flatMap((each) => each.memoryHolder ?? []),
      ],
      knowsReaders: () => this.knowsAll,
      onChanged: () => this.informers.all().forEach((informer) => informer.shareMemory()),
      onTakeBack: () => this.#takeBack(),
    });
    this.informers = this.#createInformers();
    this.#factory = this.#createFactory();
    this.#garbage = new GarbageCollector({
      location,
      runtime,
      liveOwner: async (id) => {
        if (originOf(id) !== 'declared') return undefined;
        const signal = AbortSignal.any([ending, AbortSignal.timeout(LIVE_MS)]);
        // The tenant pays: it may declare and delete functions all the time.
        return liveUid(client.for(id), objectNamed(id), { labelSelector: this.#labelSelector, signal });
      },
    });
    this.controllers = new Controllers({
      runtime,
      create: (spec) => this.#factory.create(spec),
      informers: this.informers,
      readerUsers: this.readerUsers,
      recovery: {
        check: (signal) => this.recovery.check(signal),
        waitsFor: (controller) => this.recovery.waitsFor(controller),
        awaitsLeader: (controller) => this.recovery.awaitsLeader(controller),
      },
      events: {
        onRunning: events.onRunning,
        forgetEarlier: async ({ name, queue }) => {
          if (leads() && (await queue.record.state()).isForeign) await this.#garbage.forget(name);
        },
        forget: async (id, endMs) => {
          this.#factory.ownRuns.remove(id);
          const isGone = leads() && (await this.#garbage.forget(id, endMs));
          await this.#forgetMetrics(id);
          await events.onForgotten(id);
          void this.#forgetLate(id, ending);
          return isGone;
        },
      },
      drainMs: config.drainMs,
      ending,
    });
    this.recovery = new Recovery({
      garbage: this.#garbage,
      runtime,
      location,
      parts: { informers: this.informers, controllers: () => this.controllers.running() },
      writer,
      lease: new DispatchLease({ runtime, client, location, clusterId: config.clusterId, gateway: cluster.identity }),
      thisGateway: { id: cluster.identity, runs: this.#factory.ownRuns },
      onWaitChanged: ({ name }) => this.#wakeDeclared(name),
    });
    this.redisHealth = new RedisHealth(location.redis, runtime);
    this.progress = new Progress({
      runtime,
      // Events and wakeups of a view concern the gateway that leads.
      informers: () => (leads() ? this.informers.all() : []),
      neededViews: () => (leads() ? this.#neededViews() : []),
      controllers: () => this.controllers.running(),
      // Other controllers report a stall in their own condition.
      isNeededForReady: (id) => {
        const controller = this.controllers.get(id);
        return this.controllers.countsForReady(id) && !(controller && this.recovery.awaitsLeader(controller));
      },
      notes: (controller) => notesOf(controller, this),
      onChanged: (id) => this.#wakeDeclared(id),
    });
    this.declared = config.reconcileFunctions === 'none' ? undefined : this.#createDeclared();
    this.configured = this.#createConfigured();
  }

  /**
   * Begins to watch over controllers, before the first one is added. `lifecycle` receives the parts to stop: the sweep
   * first, the informers last. It does not receive the controllers, because other parts must stop before and after
   * them.
   */
  start(lifecycle: Pick<Lifecycle, 'started'>): void {
    const { ending } = this.#options;
    lifecycle.started('informers', () => this.informers.stop());
    const checking = this.recovery.run(ending);
    lifecycle.started('recovery', () => checking);
    const looking = this.redisHealth.run(ending);
    lifecycle.started('redis health', () => looking);
    const sharing = this.memory.run(ending);
    lifecycle.started('memory shares', () => sharing);
    const watching = this.progress.run(ending);
    lifecycle.started('progress', () => watching);
    const sweeping = this.#garbage.sweep({
      signal: ending,
      leads: this.#leads,
      isThere: (id) => this.controllers.known().has(id) || this.declared?.has(id) === true,
    });
    lifecycle.started('sweep', () => sweeping);
  }

  /** This gateway leads from now on. @param signal aborted when it leads no longer. */
  lead(signal: AbortSignal): void {
    this.declared?.lead();
    void this.recovery.check(signal);
    void this.#collectGarbage();
  }

  /**
   * Whether one of the runs that a token names is in flight; true for a token that names none.
   * @throws when Redis does not answer.
   */
  async goesOn({ controller, runs }: TokenClaims): Promise<boolean> {
    if (!runs) return true;
    const named = Object.entries(runs.keys).map(([run, key]) => ({ key, run: Number(run) }));
    return this.#factory.runsInFlight(controller).hasAny(named, runs.incarnation);
  }

  /**
   * Whether every function has described its controller: data of an unknown controller is then that of a removed one.
   */
  get knowsAll(): boolean {
    return this.configured.notReady() === undefined && this.declared?.isComplete !== false;
  }

  /** Whether a controller that this gateway does not have may still come, because its function still waits. */
  mayCome(id: string): boolean {
    return !this.knowsAll || this.declared?.isUndecided(id) === true;
  }

  /**
   * The views of configured functions that are not complete, without the views that the leader fills; or, as a warning,
   * the complete views that follow no changes because the gateway lacks a right.
   */
  viewsNotReady(): string | HealthWarning | undefined {
    const needed = this.#neededViews();
    const waiting = needed.filter((each) => !each.synced && !this.recovery.awaitsLeader(each));
    if (waiting.length > 0) {
      const named = waiting.map(({ name, refusal }) => (refusal === undefined ? name : `${name} (${refusal})`));
      return `not complete: ${named.join(', ')}`;
    }
    const warning = needed.find(({ refusal }) => refusal !== undefined)?.refusal;
    return warning === undefined ? undefined : { warning };
  }

  /** The parts that this gateway, as a follower, needs from the leader for its configured functions. */
  needs(): Need[] {
    const controllers = this.controllers.running().filter((each) => this.controllers.countsForReady(each.name));
    return [
      ...controllers.filter((each) => this.recovery.awaitsLeader(each)).map(({ name }) => ({ id: name, name })),
      ...this.#neededViews()
        .filter((each) => this.recovery.awaitsLeader(each))
        .map(({ name, view }) => ({ id: view.location.prefix, name })),
    ];
  }

  /** Whether this gateway has the controller or view that another one needs, by its `id`. */
  knows(id: string): boolean {
    return this.controllers.known().has(id) || this.informers.all().some(({ view }) => view.location.prefix === id);
  }

  /** Whether this gateway would remove the data of none of these controllers if it led. */
  keeps(controllers: readonly string[]): boolean {
    const configured = new Set([...this.#describedIds(), ...this.controllers.known().keys()]);
    const declared = this.declared?.ids();
    return !controllers.some((id) => isGarbage(id, { configured, declared }));
  }

  #describedIds(): string[] {
    return this.configured.all().flatMap(({ controller }) => controller ?? []);
  }

  #neededViews(): Informer[] {
    return this.informers.neededBy((id) => this.controllers.countsForReady(id));
  }

  /** Does nothing before each configured function has had its controller once. */
  async #collectGarbage(): Promise<void> {
    if (!this.#configuredIds) return;
    const configured = new Set([...this.#configuredIds, ...this.controllers.known().keys()]);
    await this.#garbage.collect(this.informers, { configured, declared: this.declared?.ids() });
  }

  #takeBack(): void {
    const { logger } = this.#options.runtime;
    for (const informer of this.informers.all()) {
      informer.takeBack().catch((error: unknown) => {
        logger.warn({ resource: informer.name, error: messageOf(error) }, 'objects could not be taken back');
      });
    }
  }

  /**
   * Called when the facts behind a ReconcileFunction's conditions have changed; does nothing for another controller.
   */
  #wakeDeclared(id: string): void {
    this.declared?.again(id, 'facts');
  }

  /** The kinds that keys of a controller have named at run time. */
  #relatedOf(id: string, description: Description): Promise<Resource[]> {
    return this.#factory.relatedOf(id, description, this.controllers.get(id));
  }

  #createInformers(): Informers {
    const { cluster, config, files, runtime, writer } = this.#options;
    const { client, location } = cluster;
    const controller = (id: string): RunningController | undefined => this.controllers.known().get(id);
    return new Informers({
      runtime,
      location,
      client,
      settings: files.cache,
      codec: { keyRing: files.keyRing, compressAbove: config.cacheCompressAbove },
      bounds: {
        memory: this.memory,
        indexTime: (namespace) => this.#cpuBudgets.of(tenantNamed(namespace)),
      },
      writer,
      listeners: {
        enqueue: (wakeups) => this.controllers.enqueue(wakeups),
        onHandlerError: (id, error, object) => controller(id)?.recordFailure(error, object),
        lookupBudget: (id) => controller(id)?.lookupBudget,
        onUndeliverable: (id, error) => controller(id)?.recordFailure(error),
        onViewChanged: (ids) => ids.forEach((id) => this.#wakeDeclared(id)),
      },
    });
  }

  async #forgetMetrics(id: string): Promise<void> {
    const { metrics } = this.#options.runtime;
    await metrics.forget({ controller: id });
    await metrics.forget({ name: id });
  }

  /** Requests for a controller that were under way, such as those before a connection, are counted after its end. */
  async #forgetLate(id: string, ending: AbortSignal): Promise<void> {
    await this.#options.runtime.clock.sleep(LATE_MS, ending);
    if (!ending.aborted && !this.controllers.known().has(id)) await this.#forgetMetrics(id);
  }

  #createFactory(): ControllerFactory {
    const { cluster, config, runtime, urls } = this.#options;
    const { accounts, readerUsers, tokenKeys } = this;
    const { client, kubernetes, location } = cluster;
    const { historyRuns, logTriggers, resyncMs, startWindowMs } = config;
    return new ControllerFactory({
      runtime,
      location,
      client,
      informers: this.informers,
      access: { kubernetes, tokenKeys, accounts, readerUsers, ...urls },
      bounds: { cpuBudgets: this.#cpuBudgets, memory: this.memory },
      settings: { resyncMs, logTriggers, historyRuns, startWindowMs },
      on: { changed: (id) => this.#wakeDeclared(id), relatedKinds: (id) => this.declared?.again(id, 'review') },
    });
  }

  /** Of the ReconcileFunctions that this deployment runs; undefined: all. */
  get #labelSelector(): string | undefined {
    const { reconcileFunctions: which } = this.#options.config;
    return which === 'all' ? undefined : which;
  }

  #createDeclared(): DeclaredFunctions {
    const { cluster, config, files, runtime, urls } = this.#options;
    const { client, kubernetes } = cluster;
    const { allowedEndpoints, maxFunctionsPerNamespace, reviewMs } = config;
    return new DeclaredFunctions({
      runtime,
      cluster: { client, rights: new RightsWatch({ client, runtime }) },
      controllers: this.controllers,
      resolver: new FunctionResolver({
        client,
        cache: {
          settings: files.cache,
          canEncrypt: files.keyRing !== undefined,
          relatedOf: (id, description) => this.#relatedOf(id, description),
        },
        allowedEndpoints,
        cpuBudgets: this.#cpuBudgets,
        clock: runtime.clock,
        hasOuterUrl: urls.cacheUrl !== undefined,
        kubernetes,
      }),
      writer: new FunctionStatusWriter({ runtime, client, leads: this.#leads }),
      progress: this.progress,
      reviewMs,
      select: {
        labelSelector: this.#labelSelector,
        maxPerNamespace: maxFunctionsPerNamespace,
        leaving: (namespace) => this.#factory.ownRuns.leaving(tenantNamed(namespace), runtime.clock.now()),
      },
    });
  }

  #createConfigured(): ConfiguredFunctions {
    const { config, ending, files, runtime } = this.#options;
    const { controllers } = this;
    const spec = async (description: Description, url: string): Promise<ControllerSpec> => {
      const related = await this.#relatedOf(description.name, description);
      return {
        id: description.name,
        origin: 'configured',
        declaration: CONFIGURED,
        description,
        related,
        url,
        keys: files.keys,
        ca: files.ca,
      };
    };
    return new ConfiguredFunctions({
      runtime,
      urls: config.functionUrls,
      files,
      reviewMs: config.reviewMs,
      add: async (description, url, onWaiting) =>
        controllers.start(await spec(description, url), { signal: ending, onWaiting }),
      outdated: async ({ name }, isReview) => {
        const controller = controllers.get(name);
        // A controller that was given up while it was being changed does not run at all.
        if (!controller || controller.sources.outdated || controller.relatedKinds?.isOutdated) return true;
        return isReview && this.#factory.isServedAnew(controller);
      },
      change: async (description, url) => controllers.apply(await spec(description, url), { signal: ending }),
      complete: async (names) => {
        await this.declared?.complete;
        if (ending.aborted) return;
        this.#configuredIds = names;
        if (this.#leads()) await this.#collectGarbage();
      },
    });
  }
}

/** How long the apiserver may take to say whose a name is. */
const LIVE_MS = 10_000;
/** See `ControllerSpec.declaration`. */
const CONFIGURED = 'configured';
