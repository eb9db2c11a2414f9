import { randomUUID } from 'node:crypto';
import {
  type Checkpoint,
  type Clock,
  formatKind,
  type Logger,
  messageOf,
  noCheckpoint,
  systemClock,
  UserError,
} from '../core/index.ts';
import {
  type Description,
  gatewayKeys,
  importSecret,
  isLoopback,
  isSecureUrl,
  type SigningKey,
} from '../contract/index.ts';
import type { KeyRing } from '../contract/node/key-ring.ts';
import { ApiClient } from './apiserver/api-client.ts';
import { loadCredentials } from './apiserver/credentials.ts';
import { clusterIdentity, discoverResource } from './apiserver/discovery.ts';
import { FlowControl } from './apiserver/flow-control.ts';
import { readCacheSettings } from './cache/cache-file.ts';
import { readCacheKeys } from './cache/cache-keys.ts';
import type { KeyWakeup } from './cache/change.ts';
import { Informers } from './cache/informers.ts';
import { ReaderUsers } from './cache/reader-users.ts';
import { connectRedis, type Redis, withoutPassword } from './cache/redis.ts';
import type { View } from './cache/view.ts';
import type { CacheSettings } from './cache/view-settings.ts';
import type { GatewayConfig } from './config.ts';
import { Controller } from './controllers/controller.ts';
import { queueOptions } from './controllers/queue-options.ts';
import { FunctionRegistry } from './controllers/function-registry.ts';
import { checkSealedKinds } from './controllers/sealed-kinds.ts';
import { CacheAccess } from './dispatch/cache-access.ts';
import { readCertificates } from './dispatch/certificates.ts';
import { Endpoint } from './dispatch/endpoint.ts';
import { checkEndpoint, rulesForConfigured } from './dispatch/endpoint-rules.ts';
import { TokenKeys } from './dispatch/token-keys.ts';
import type { HealthCheck } from './manager/health.ts';
import { removeLeftovers } from './manager/leftovers.ts';
import { Lifecycle } from './manager/lifecycle.ts';
import { PrometheusMetrics } from './manager/metrics.ts';
import { Recovery } from './manager/recovery.ts';
import { AdminServer, CACHE_PATH, CALLBACK_PATH } from './server/admin-server.ts';
import { CacheApi } from './server/cache-api/cache-api.ts';
import { Catalog } from './server/cache-api/catalog.ts';
import { callbackApi } from './server/callback-api.ts';
import { Dashboard } from './server/dashboard.ts';
import { reconcileApi } from './server/reconcile-api.ts';
import { BullMqWorkQueue } from './workqueue/bullmq-work-queue.ts';

/** What start-up has made and the controllers are made of. */
interface Parts {
  readonly redis: Redis;
  readonly client: ApiClient;
  readonly clusterId: string;
  readonly keys: readonly SigningKey[];
  /** Whom functions' certificates are checked against; undefined: those that Node knows. */
  readonly ca: string | undefined;
  readonly informers: Informers;
  readonly recovery: Recovery;
  readonly tokenKeys: TokenKeys;
  readonly cacheApi: CacheApi;
  /** Undefined when functions get none. */
  readonly readerUsers: ReaderUsers | undefined;
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
  readonly #clock: Clock = systemClock;
  readonly #logger: Logger;
  readonly #metrics = new PrometheusMetrics();
  readonly #lifecycle: Lifecycle;
  readonly #dashboard = new Dashboard();
  readonly #server: AdminServer;
  readonly #stop = new AbortController();
  /** Written into every view: the scripts refuse a writer with another one. */
  readonly #term = randomUUID();
  /** All controllers that may be woken, those that are still being started included. */
  readonly #woken = new Map<string, Controller>();
  readonly #names = new Set<string>();
  #cacheSettings: CacheSettings = { defaults: {}, kinds: {} };
  #keyRing: KeyRing | undefined;
  readonly #controllers = new Map<string, Controller>();
  #parts: Parts | undefined;
  #functions: FunctionRegistry | undefined;
  #fatal: (error: unknown) => void = () => {};

  constructor(config: GatewayConfig, logger: Logger, options: GatewayOptions = {}) {
    this.#config = config;
    this.#options = { checkpoint: noCheckpoint, ...options };
    this.#logger = logger;
    this.#lifecycle = new Lifecycle(this.#clock, logger);
    this.#server = new AdminServer({
      host: config.host,
      port: config.port,
      live: new Map([['ping', () => undefined]]),
      ready: this.#readyChecks(),
      metrics: () => this.#renderMetrics(),
      dashboard: this.#dashboard,
      cacheApi: () => this.#parts?.cacheApi,
      tls: config.tls,
      reconcile: reconcileApi({
        tokens: config.apiTokens,
        controller: (name) => {
          const found = this.#controllers.get(name);
          return found && ((request) => found.requeue(request));
        },
        healthy: () => this.#parts?.recovery.healthy ?? false,
        clock: this.#clock,
        logger,
      }),
      queues: () => this.#askableQueues(),
      callbacks: callbackApi({
        keys: () => this.#parts?.keys,
        healthy: () => this.#parts?.recovery.healthy ?? false,
        starting: () => this.#functions?.trouble() !== undefined,
        controller: (name) => {
          const found = this.#controllers.get(name);
          return found && ((body) => found.callback(body));
        },
        logger,
      }),
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
    const redis = this.#parts?.redis;
    if (redis && redis.status !== 'ready') redis.disconnect();
    await this.#lifecycle.stop(this.#config.drainMs + 5000);
  }

  async #start(): Promise<void> {
    const config = this.#config;
    const { signal } = this.#stop;
    const keys = await this.#signingKeys();
    const ca = readCertificates(config.functionCaFile);
    checkFunctionUrls(config.functionUrls);
    this.#cacheSettings = readCacheSettings(config.cacheFile);
    this.#keyRing = readCacheKeys(config.cacheKeys, config.cacheKeysFile);
    await this.#server.start();
    this.#lifecycle.started('server', () => this.#server.stop());
    this.#logger.info({ url: this.#server.url }, 'listening');

    const redis = await connectRedis(config.redisUrl);
    this.#lifecycle.started('redis', async () => redis.disconnect());
    signal.throwIfAborted();
    const credentials = await loadCredentials(config.kubeconfig);
    this.#lifecycle.started('apiserver', () => credentials.close());
    const flowControl = new FlowControl({ ...config.apiserverLimits, clock: this.#clock });
    const client = new ApiClient(credentials, this.#metrics, flowControl);
    const clusterId = config.clusterId ?? (await identify(client));
    signal.throwIfAborted();
    this.#logger.info(
      { cluster: clusterId, server: client.server, redis: withoutPassword(config.redisUrl) },
      'connected',
    );

    const { checkpoint } = this.#options;
    const redisKeys = gatewayKeys({ keyPrefix: config.keyPrefix, clusterId });
    const shared = { redis, clock: this.#clock, logger: this.#logger, metrics: this.#metrics, checkpoint };
    const informers = new Informers({
      ...shared,
      client,
      keyPrefix: config.keyPrefix,
      clusterId,
      viewsKey: redisKeys.views,
      settings: this.#cacheSettings,
      keyRing: this.#keyRing,
      compressAbove: config.cacheCompressAbove,
      enqueue: (wakeups) => this.#enqueue(wakeups),
      term: this.#term,
      onForeignTerm: (view) => void this.#checkTerm(view),
    });
    this.#lifecycle.started('informers', () => informers.stop());
    const recovery = new Recovery({
      ...shared,
      registryKey: redisKeys.registry,
      informers: () => informers.all(),
      controllers: () => [...this.#controllers.values()],
      nothingInFlight: config.nothingInFlight,
    });
    const checking = recovery.run(signal);
    this.#lifecycle.started('recovery', () => checking);
    this.#lifecycle.started('controllers', async () => {
      await Promise.all([...this.#controllers.values()].map((each) => each.stop(config.drainMs)));
    });
    const tokenKeys = new TokenKeys({ redis, hash: redisKeys.tokenKeys, clock: this.#clock });
    const cacheApi = this.#createCacheApi({ client, informers, recovery, tokenKeys });
    const readerUsers = this.#createReaderUsers({ redis, clusterId, keys });
    const parts: Parts = { redis, client, clusterId, keys, ca, informers, recovery, tokenKeys, cacheApi, readerUsers };
    this.#parts = parts;
    const { keyPrefix } = config;
    const leftovers = { redis, keyPrefix, clusterId, registryKey: redisKeys.registry, informers, logger: this.#logger };
    const functions = new FunctionRegistry({
      urls: config.functionUrls,
      keys,
      ca,
      add: (description, url) => this.#addController(description, url, parts),
      complete: () => removeLeftovers(leftovers, new Set(this.#controllers.keys())),
      clock: this.#clock,
      logger: this.#logger,
    });
    this.#functions = functions;
    functions.start(signal);
    this.#lifecycle.started('functions', () => functions.stopped());
  }

  #createCacheApi(parts: Pick<Parts, 'client' | 'informers' | 'recovery' | 'tokenKeys'>): CacheApi {
    const { client, informers, recovery, tokenKeys } = parts;
    const views = () =>
      informers.all().map((informer) => ({
        view: informer.view,
        requestProgress: () => informer.requestProgress(),
      }));
    return new CacheApi({
      catalog: new Catalog(views, client, () => this.#clock.now()),
      verify: (token) => tokenKeys.verify(token),
      available: () => recovery.healthy,
      listLimit: this.#config.cacheListLimit,
      requestsPerSecond: this.#config.cacheRequestsPerSecond,
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics,
    });
  }

  #createReaderUsers({ redis, clusterId, keys }: Pick<Parts, 'redis' | 'clusterId' | 'keys'>): ReaderUsers | undefined {
    const { keyPrefix, redisUsers } = this.#config;
    if (!redisUsers) return undefined;
    const users = new ReaderUsers({
      redis,
      keyPrefix,
      clusterId,
      keys,
      complete: () => this.#functions !== undefined && this.#functions.trouble() === undefined,
      clock: this.#clock,
      logger: this.#logger,
    });
    const running = users.run(this.#stop.signal);
    this.#lifecycle.started('redis users', () => running);
    return users;
  }

  /** Where a function that is called at `endpoint` may read the cache; undefined where a token must not be sent. */
  #cacheUrlFor(endpoint: string): string | undefined {
    return isSecureUrl(endpoint) ? this.#outerUrl() : undefined;
  }

  /** Where a function may send the outcome of a run that goes on. It is signed, and holds no secret. */
  #callbackUrlFor(controller: string): string | undefined {
    const url = this.#outerUrl();
    return url === undefined ? undefined : `${url}${CALLBACK_PATH.slice(CACHE_PATH.length)}/${controller}`;
  }

  #outerUrl(): string | undefined {
    if (this.#config.cacheUrl !== undefined) return this.#config.cacheUrl;
    return isLoopback(new URL(this.#server.url).hostname) ? this.#server.url + CACHE_PATH : undefined;
  }

  async #signingKeys(): Promise<SigningKey[]> {
    const { functionUrls, signingSecrets } = this.#config;
    if (functionUrls.length > 0 && signingSecrets.length === 0) {
      throw new UserError('LEVELHOOK_SIGNING_SECRETS is not set: functions accept signed triggers only.');
    }
    try {
      return await Promise.all(signingSecrets.map(importSecret));
    } catch (error) {
      throw new UserError(`LEVELHOOK_SIGNING_SECRETS is wrong: ${messageOf(error)}.`);
    }
  }

  async #addController(description: Description, url: string, parts: Parts): Promise<void> {
    const { name } = description;
    // Before the first wait: two functions are asked at the same time.
    if (this.#names.has(name)) throw new UserError(`two functions call their controller "${name}": rename one`);
    this.#names.add(name);
    const controller = await this.#createController(description, url, parts).catch((error: unknown) => {
      this.#names.delete(name);
      throw error;
    });
    try {
      await controller.addHandlers();
      await controller.waitForSync(this.#stop.signal);
      await controller.start();
    } catch (error) {
      await controller.stop(0);
      this.#woken.delete(name);
      this.#names.delete(name);
      throw error;
    }
    this.#controllers.set(name, controller);
    this.#dashboard.add(controller.queue.bullmq);
    this.#logger.info({ controller: name, url, for: formatKind(description.for) }, 'controller started');
    await parts.recovery.check(this.#stop.signal);
  }

  /** Its queue is known to the relay, and paused until recovery has looked at it and at its views. */
  async #createController(description: Description, url: string, parts: Parts): Promise<Controller> {
    const { name, concurrency, owns, watches, reads } = description;
    const { redis, clusterId, client, informers, keys, ca, tokenKeys, readerUsers } = parts;
    const { cacheTokenMs, keyPrefix, logTriggers, resyncMs } = this.#config;
    // Each kind once, that of `for` first.
    const kinds = new Map([description.for, ...owns, ...watches, ...reads].map((kind) => [formatKind(kind), kind]));
    checkSealedKinds(description, this.#cacheSettings, this.#keyRing !== undefined);
    const resources = await Promise.all([...kinds.values()].map((kind) => discoverResource(client.for(name), kind)));
    const sources = await Promise.all(
      resources.map(async (resource) => ({ resource, informers: await informers.ensure(resource, name) })),
    );
    const { checkpoint } = this.#options;
    const shared = { clock: this.#clock, logger: this.#logger, metrics: this.#metrics, checkpoint };
    const queue = new BullMqWorkQueue({ ...shared, redis, keyPrefix, clusterId, name, ...queueOptions(description) });
    queue.pause();
    const endpoint = new Endpoint(url, keys, { connections: concurrency, ca });
    const cacheUrl = this.#cacheUrlFor(url);
    const views = sources.flatMap((source) => source.informers.map(({ view }) => view));
    // What is encrypted nobody can read in Redis.
    const readable = views.filter((view) => !view.sealed).map(({ location }) => location);
    if (readable.length > 0) await readerUsers?.allow(name, readable);
    const cacheAccess = new CacheAccess({
      controller: name,
      views,
      redisUser: () => readerUsers?.userOf(name),
      api: cacheUrl === undefined ? undefined : { url: cacheUrl, keys: tokenKeys },
      clock: this.#clock,
      lifetimeMs: cacheTokenMs,
      timeoutMs: description.timeoutSeconds * 1000,
    });
    const random = Math.random;
    const callbackUrl = this.#callbackUrlFor(name);
    const own = { description, sources, queue, endpoint, cacheAccess, callbackUrl, logTriggers, resyncMs, random };
    const controller = new Controller({ ...shared, ...own });
    this.#woken.set(name, controller);
    return controller;
  }

  async #enqueue(wakeups: readonly KeyWakeup[]): Promise<readonly string[]> {
    const byController = Map.groupBy(wakeups, ({ controller }) => controller);
    await Promise.all([...byController].map(async ([controller, keys]) => this.#woken.get(controller)?.wake(keys)));
    // A controller that this gateway does not run, or not yet.
    return [...byController.keys()].filter((controller) => !this.#woken.has(controller));
  }

  /** The term is gone with the rest of Redis' data, which recovery mends, or another gateway has written its own. */
  async #checkTerm(view: View): Promise<void> {
    try {
      const term = await view.term();
      if (term === undefined || term === this.#term) return;
      this.#fatal(new UserError('Another gateway has taken over this cluster: this one stops.'));
    } catch (error) {
      // The next chunk that is refused asks again.
      this.#logger.warn({ resource: view.name, error: messageOf(error) }, 'the term of a view could not be read');
    }
  }

  #readyChecks(): Map<string, HealthCheck> {
    const starting = 'still starting';
    return new Map<string, HealthCheck>([
      ['redis', () => (this.#parts?.recovery.healthy ? undefined : 'not connected, or being checked after a loss')],
      ['informers', () => (this.#parts ? this.#parts.informers.trouble() : starting)],
      ['functions', () => (this.#functions ? this.#functions.trouble() : starting)],
    ]);
  }

  /** Undefined while Redis is away: a question would wait until it is back. */
  #askableQueues(): ReadonlyMap<string, BullMqWorkQueue> | undefined {
    if (!this.#parts?.recovery.healthy) return undefined;
    return new Map([...this.#woken].map(([name, { queue }]) => [name, queue]));
  }

  /** Depths are asked for when somebody looks, not counted along. */
  async #renderMetrics(): Promise<string> {
    for (const [name, queue] of this.#askableQueues() ?? []) {
      const { waiting, running } = await queue.counts();
      this.#metrics.set('workqueue_depth', { name }, waiting);
      this.#metrics.set('controller_runtime_active_workers', { controller: name }, running);
    }
    return this.#metrics.registry.metrics();
  }
}

function checkFunctionUrls(urls: readonly string[]): void {
  try {
    for (const url of urls) checkEndpoint(url, rulesForConfigured(url));
  } catch (error) {
    throw new UserError(`LEVELHOOK_FUNCTIONS is wrong: ${messageOf(error)}.`);
  }
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
