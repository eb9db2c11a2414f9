import { type Checkpoint, type Logger, messageOf, noCheckpoint, systemClock, UserError } from '../core/index.ts';
import { isLoopback } from '../contract/index.ts';
import { ApiClient } from './apiserver/api-client.ts';
import { loadCredentials } from './apiserver/credentials.ts';
import { clusterIdentity } from './apiserver/discovery.ts';
import { FlowControl } from './apiserver/flow-control.ts';
import { readCacheSettings } from './cache/cache-file.ts';
import { readCacheKeys } from './cache/cache-keys.ts';
import { Informers } from './cache/informers.ts';
import { ReaderUsers } from './access/reader-users.ts';
import { connectRedis, type Redis, withoutPassword } from './redis/redis.ts';
import { redisLocation } from './redis/redis-location.ts';
import { refuseEviction } from './redis/redis-memory.ts';
import { ViewWriter } from './cache/view-writer.ts';
import { CpuBudgets } from './cel/cpu-budget.ts';
import type { GatewayConfig } from './config.ts';
import { ControllerFactory } from './controllers/controller-factory.ts';
import { Controllers } from './controllers/controllers.ts';
import { FunctionResolver } from './registration/function-resolver.ts';
import { ConfiguredFunctions } from './registration/configured-functions.ts';
import { FunctionStatusWriter } from './registration/function-status-writer.ts';
import { isDeclared } from './controllers/controller-id.ts';
import { DeclaredFunctions } from './registration/declared-functions.ts';
import { readCertificates } from './endpoint/certificates.ts';
import { checkFunctionUrls } from './endpoint/endpoint-rules.ts';
import { readSigningKeys } from './endpoint/signing-keys.ts';
import { TokenKeys } from './access/token-keys.ts';
import { GatewayClock } from './manager/gateway-clock.ts';
import type { HealthCheck } from './manager/health.ts';
import { forgetController, collectGarbage, sweepRegistry } from './manager/garbage-collection.ts';
import { Lifecycle } from './manager/lifecycle.ts';
import { PrometheusMetrics } from './manager/metrics.ts';
import { Progress } from './manager/progress.ts';
import { Recovery } from './manager/recovery.ts';
import { AdminServer, CACHE_PATH, CALLBACK_PATH } from './server/admin-server.ts';
import { CacheApi } from './cache-api/cache-api.ts';
import { Catalog } from './cache-api/catalog.ts';
import { callbackApi } from './server/callback-api.ts';
import { Dashboard } from './server/dashboard.ts';
import { reconcileApi } from './server/reconcile-api.ts';
import type { BullMqWorkQueue } from './workqueue/bullmq-work-queue.ts';

/** What start-up has made, and requests and checks look into. */
interface Parts {
  readonly progress: Progress;
  readonly informers: Informers;
  readonly recovery: Recovery;
  readonly cacheApi: CacheApi;
  readonly controllers: Controllers;
  readonly functions: ConfiguredFunctions;
  /** Undefined when the settings say that there are none. */
  readonly declared: DeclaredFunctions | undefined;
}

export interface GatewayOptions {
  /** For tests: called at the named points between two steps. Default: does nothing. */
  readonly checkpoint?: Checkpoint;
}

/**
 * The long-running process, wired together: this is the one place that knows all parts. Start order as
 * controller-runtime's Manager: server, then caches, then controllers; stopped in reverse.
 */
export class Gateway {
  readonly #config: GatewayConfig;
  readonly #options: Required<GatewayOptions>;
  readonly #clock = new GatewayClock();
  readonly #logger: Logger;
  readonly #metrics = new PrometheusMetrics();
  readonly #lifecycle: Lifecycle;
  readonly #dashboard = new Dashboard();
  readonly #server: AdminServer;
  readonly #stop = new AbortController();
  #redis: Redis | undefined;
  #parts: Parts | undefined;
  #fatal: (error: unknown) => void = () => {};

  constructor(config: GatewayConfig, logger: Logger, options: GatewayOptions = {}) {
    this.#config = config;
    this.#options = { checkpoint: noCheckpoint, ...options };
    this.#logger = logger;
    this.#lifecycle = new Lifecycle(this.#clock, logger);
    this.#server = new AdminServer({
      listen: { host: config.host, port: config.port, allowedHosts: config.allowedHosts, tls: config.tls },
      logger,
      live: new Map([['ping', () => undefined]]),
      ready: this.#readyChecks(),
      metrics: () => this.#renderMetrics(),
      apis: {
        dashboard: this.#dashboard,
        queues: () => this.#askableQueues(),
        cacheApi: () => this.#parts?.cacheApi,
        reconcile: reconcileApi({
          tokens: config.apiTokens,
          controller: (name) => this.#parts?.controllers.get(name),
          healthy: () => this.#parts?.recovery.healthy ?? false,
          // Not the gateway's: that is set once the time of the gateways before is known, which this limit must not
          // notice.
          clock: systemClock,
          logger,
        }),
        callbacks: callbackApi({
          healthy: () => this.#parts?.recovery.healthy ?? false,
          starting: () => !this.#knowsAll(),
          // Those that are being started, or changed, included: they ask for patience.
          controller: (name) => this.#parts?.controllers.known().get(name),
          logger,
        }),
      },
    });
  }

  /** `http://host:port` of health, metrics and dashboard, once started. */
  get url(): string {
    return this.#server.url;
  }

  /**
   * Starts everything that can be started now; functions that do not answer yet are asked again until they do.
   * @param fatal told when the gateway cannot go on: another one has taken over its views.
   * @throws UserError when Redis or the apiserver does not answer, or the port is taken; then nothing is left running.
   */
  async start(fatal: (error: unknown) => void = () => {}): Promise<void> {
    this.#fatal = fatal;
    try {
      await this.#start();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Ends in order: no new runs, runs in flight finish within the drain limit, then watches, Redis and the server. */
  async stop(): Promise<void> {
    this.#stop.abort();
    // With Redis away its commands would wait for it, each part for its own limit.
    if (this.#redis && this.#redis.status !== 'ready') this.#redis.disconnect();
    await this.#lifecycle.stop(this.#config.drainMs + 5000);
  }

  async #start(): Promise<void> {
    const config = this.#config;
    const { signal } = this.#stop;
    // Everything that can be wrong in the settings is told before anything is touched.
    const keys = await readSigningKeys(config);
    const ca = readCertificates(config.functionCaFile);
    checkFunctionUrls(config.functionUrls);
    const settings = readCacheSettings(config.cacheFile);
    const keyRing = readCacheKeys(config.cacheKeys, config.cacheKeysFile);

    await this.#server.start();
    this.#lifecycle.started('server', () => this.#server.stop());
    this.#logger.info({ url: this.#server.url }, 'listening');

    const redis = await connectRedis(config.redisUrl);
    this.#redis = redis;
    this.#lifecycle.started('redis', async () => redis.disconnect());
    await refuseEviction(redis, config.redisUrl, this.#logger);
    signal.throwIfAborted();

    const credentials = await loadCredentials(config.kubeconfig);
    this.#lifecycle.started('apiserver', () => credentials.close());
    const flowControl = new FlowControl(config.apiserverLimits);
    const client = new ApiClient(credentials, this.#metrics, flowControl);
    const clusterId = config.clusterId ?? (await identify(client));
    signal.throwIfAborted();
    this.#logger.info(
      { cluster: clusterId, server: client.server, redis: withoutPassword(config.redisUrl) },
      'connected',
    );

    const { checkpoint } = this.#options;
    const { keyPrefix } = config;
    const location = redisLocation(redis, keyPrefix, clusterId);
    const { registryKey } = location;
    // Before anything is timed that outlives this process.
    await this.#clock.continueFrom(redis, registryKey, this.#logger);
    const keeping = this.#clock.keep(redis, registryKey, this.#logger, signal);
    this.#lifecycle.started('clock', () => keeping);
    const runtime = { clock: this.#clock, logger: this.#logger, metrics: this.#metrics, checkpoint };
    const writer = new ViewWriter(this.#logger, () =>
      this.#fatal(new UserError('Another gateway has taken over this cluster: this one stops.')),
    );
    const informers = new Informers({
      runtime,
      location,
      client,
      settings,
      keyRing,
      compressAbove: config.cacheCompressAbove,
      writer,
      woken: {
        enqueue: (wakeups) => controllers.enqueue(wakeups),
        onHandlerError: (id, error, object) => controllers.known().get(id)?.recordFailure(error, object),
        lookupBudget: (id) => controllers.known().get(id)?.lookupBudget,
        onUndeliverable: (id, error) => controllers.known().get(id)?.recordFailure(error),
      },
    });
    this.#lifecycle.started('informers', () => informers.stop());

    const cpuBudgets = new CpuBudgets();
    const tokenKeys = new TokenKeys({ redis, hash: location.tokenKeysKey, clock: this.#clock });
    const readerUsers = config.redisUsers
      ? new ReaderUsers({
          runtime,
          location,
          complete: () => this.#knowsAll(),
        })
      : undefined;
    const factory = new ControllerFactory({
      runtime,
      location,
      client,
      informers,
      wayBack: {
        tokenKeys,
        cacheTokenMs: config.cacheTokenMs,
        readerUsers,
        cacheUrl: this.#outerUrl(),
        callbackUrl: (id) => this.#callbackUrlFor(id),
      },
      cpuBudgets,
      settings: { resyncMs: config.resyncMs, logTriggers: config.logTriggers },
    });
    const controllers = new Controllers({
      create: (spec) => factory.create(spec),
      informers,
      readerUsers,
      runtime,
      recovery: {
        check: (ending) => recovery.check(ending),
        waitsFor: (controller) => recovery.waitsFor(controller),
      },
      events: {
        onRunning: ({ name, queue }) => this.#dashboard.add(name, queue.bullmq),
        onStopped: ({ name }) => this.#dashboard.remove(name),
        forget: async (id, endMs) => {
          await forgetController(location, this.#clock, id, endMs);
          await this.#metrics.forget({ controller: id });
          await this.#metrics.forget({ name: id });
        },
      },
      drainMs: config.drainMs,
      ending: signal,
    });
    const recovery = new Recovery({
      runtime,
      location,
      informers: () => informers.all(),
      controllers: () => controllers.running(),
      writer,
      nothingInFlight: config.nothingInFlight,
    });
    const { reconcileFunctions: which } = config;
    const declared =
      which !== 'none'
        ? new DeclaredFunctions({
            runtime,
            client,
            controllers,
            resolver: new FunctionResolver({
              client,
              cacheSettings: settings,
              canEncrypt: keyRing !== undefined,
              allowedEndpoints: config.allowedEndpoints,
              cpuBudgets,
              clock: this.#clock,
              hasOuterUrl: this.#outerUrl() !== undefined,
            }),
            writer: new FunctionStatusWriter({ runtime, client }),
            labelSelector: which === 'all' ? undefined : which,
            reviewMs: config.reviewMs,
            maxPerNamespace: config.maxFunctionsPerNamespace,
          })
        : undefined;
    const functions = new ConfiguredFunctions({
      runtime,
      urls: config.functionUrls,
      keys,
      ca,
      add: (description, url) => controllers.start({ id: description.name, description, url, keys, ca }, signal),
      // A controller that was given up while it was being changed does not run at all.
      outdated: ({ name }) => controllers.get(name)?.outdated ?? true,
      change: (description, url) => controllers.apply({ id: description.name, description, url, keys, ca }, { signal }),
      complete: async (names) => {
        await declared?.complete;
        if (signal.aborted) return;
        const configured = new Set([...names, ...controllers.known().keys()]);
        const known = { configured, declared: declared?.ids() };
        await collectGarbage(location, runtime, informers, known);
      },
    });
    const progress = new Progress({
      runtime,
      informers: () => informers.all(),
      // Of the others their own condition tells.
      controllers: () => controllers.running().filter(({ name }) => !isDeclared(name)),
    });
    this.#parts = {
      progress,
      informers,
      recovery,
      controllers,
      functions,
      declared,
      cacheApi: this.#cacheApi({ client, informers, recovery, tokenKeys, controllers }),
    };

    const checking = recovery.run(signal);
    this.#lifecycle.started('recovery', () => checking);
    const watching = progress.run(signal);
    this.#lifecycle.started('progress', () => watching);
    const sweeping = sweepRegistry(location, runtime, signal);
    this.#lifecycle.started('sweep', () => sweeping);
    const updating = readerUsers?.run(signal);
    this.#lifecycle.started('redis users', async () => updating);
    this.#lifecycle.started('controllers', () => controllers.stopAll());
    declared?.start(signal);
    this.#lifecycle.started('reconcilefunctions', async () => declared?.stopped());
    functions.start(signal);
    this.#lifecycle.started('functions', () => functions.stopped());
  }

  #cacheApi(
    parts: Pick<Parts, 'informers' | 'recovery' | 'controllers'> & { client: ApiClient; tokenKeys: TokenKeys },
  ): CacheApi {
    const { client, informers, recovery, tokenKeys, controllers } = parts;
    const views = () =>
      informers.all().map((informer) => ({
        view: informer.view,
        requestProgress: () => informer.requestProgress(),
        checked: () => !recovery.isRepairing(informer.view),
      }));
    return new CacheApi({
      catalog: new Catalog(views, client, () => this.#clock.now()),
      verify: async (token) => controllers.current(await tokenKeys.verify(token)),
      available: () => recovery.healthy,
      listLimit: this.#config.cacheListLimit,
      requestsPerSecond: this.#config.cacheRequestsPerSecond,
      runtime: { clock: this.#clock, logger: this.#logger, metrics: this.#metrics },
    });
  }

  /** Where a function may send the outcome of a run that goes on. It is signed, and holds no secret. */
  #callbackUrlFor(controller: string): string | undefined {
    const url = this.#outerUrl();
    return url === undefined ? undefined : `${url}${CALLBACK_PATH.slice(CACHE_PATH.length)}/${controller}`;
  }

  /** Whether every controller that there is has been heard of: one that is not known then is no more. */
  #knowsAll(): boolean {
    const { functions, declared } = this.#parts ?? {};
    return functions !== undefined && functions.notReady() === undefined && declared?.notReady() === undefined;
  }

  /** Where functions reach this gateway. */
  #outerUrl(): string | undefined {
    if (this.#config.cacheUrl !== undefined) return this.#config.cacheUrl;
    return isLoopback(new URL(this.#server.url).hostname) ? this.#server.url + CACHE_PATH : undefined;
  }

  #readyChecks(): Map<string, HealthCheck> {
    const starting = 'still starting';
    return new Map<string, HealthCheck>([
      ['redis', () => (this.#parts ? this.#parts.recovery.notReady() : starting)],
      ['informers', () => (this.#parts ? this.#parts.informers.notReady(isNeededForReady) : starting)],
      ['functions', () => (this.#parts ? this.#parts.functions.notReady() : starting)],
      ['progress', () => (this.#parts ? this.#parts.progress.notReady() : starting)],
      ['controllers', () => (this.#parts ? this.#parts.controllers.notReady() : starting)],
      ['reconcilefunctions', () => (this.#parts ? this.#parts.declared?.notReady() : starting)],
    ]);
  }

  /** Undefined while Redis is away: a question would wait until it is back. */
  #askableQueues(): ReadonlyMap<string, BullMqWorkQueue> | undefined {
    if (!this.#parts?.recovery.healthy) return undefined;
    return new Map([...this.#parts.controllers.known()].map(([name, { queue }]) => [name, queue]));
  }

  /** Depths are read when `/metrics` is scraped, not counted along. */
  async #renderMetrics(): Promise<string> {
    for (const [name, queue] of this.#askableQueues() ?? []) {
      const [{ waiting, running }, oldestMs = 0] = await Promise.all([queue.counts(), queue.oldestDueMs()]);
      // Removed meanwhile, and its series with it.
      if (!this.#parts?.controllers.known().has(name)) continue;
      this.#metrics.set('workqueue_depth', { name }, waiting);
      this.#metrics.set('levelhook_queue_oldest_due_seconds', { name }, oldestMs / 1000);
      this.#metrics.set('controller_runtime_active_workers', { controller: name }, running);
    }
    return this.#metrics.registry.metrics();
  }
}

/**
 * Views that only ReconcileFunctions need do not count for readiness: any tenant may declare one for a kind whose
 * list never comes to an end. Their condition Synced tells.
 */
function isNeededForReady(user: string): boolean {
  return !isDeclared(user);
}

/** Also the first request to the apiserver, and so where wrong credentials show. */
async function identify(client: ApiClient): Promise<string> {
  try {
    return await clusterIdentity(client);
  } catch (error) {
    throw new UserError(
      `The apiserver at ${client.server} cannot be used (${messageOf(error)}): check the kubeconfig.`,
    );
  }
}
