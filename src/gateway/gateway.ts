import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  type Checkpoint,
  type Logger,
  messageOf,
  noCheckpoint,
  type Resource,
  type Runtime,
  systemClock,
  UserError,
} from '../core/index.ts';
import type { Description } from '../contract/index.ts';
import { isLoopback } from '../contract/secure-url.ts';
import { ApiClient } from './apiserver/api-client.ts';
import { type Credentials, loadCredentials } from './apiserver/credentials.ts';
import { clusterIdentity } from './apiserver/discovery.ts';
import type { GatewayCertificates } from './certificates/gateway-certificates.ts';
import { FlowControl } from './apiserver/flow-control.ts';
import { GatewayWriter } from './cache/gateway-writer.ts';
import { Informers } from './cache/informers.ts';
import { ReaderUsers } from './access/reader-users.ts';
import { connectRedis, type Redis, withoutPassword } from './redis/redis.ts';
import { type RedisLocation, redisLocation } from './redis/redis-location.ts';
import { refuseUnusable } from './redis/redis-server.ts';
import { CpuBudgets } from './cel/cpu-budget.ts';
import type { GatewayConfig } from './config/config.ts';
import { type ConfiguredFiles, readConfiguredFiles } from './config/files.ts';
import { electionLease, type LeaseKey } from './config/lease.ts';
import type { RunningController } from './controllers/controller.ts';
import { ControllerFactory } from './controllers/controller-factory.ts';
import type { ControllerSpec } from './controllers/controller-spec.ts';
import { Controllers } from './controllers/controllers.ts';
import { FunctionResolver } from './registration/function-resolver.ts';
import { ConfiguredFunctions } from './registration/configured-functions.ts';
import { FunctionStatusWriter } from './registration/function-status-writer.ts';
import { DeclaredFunctions } from './registration/declared-functions.ts';
import { Webhooks } from './webhooks/webhooks.ts';
import { checkFunctionUrls } from './endpoint/endpoint-rules.ts';
import { AccountTokens } from './access/account-tokens.ts';
import { KubernetesCredentials } from './access/kubernetes-credentials.ts';
import { TokenKeys } from './access/token-keys.ts';
import { checkDataVersion, raiseDataVersion } from './manager/data-version.ts';
import { DispatchLease } from './manager/dispatch-lease.ts';
import { GatewayClock } from './manager/gateway-clock.ts';
import { forgetController, collectGarbage, sweepRegistry } from './manager/garbage-collection.ts';
import { LeaderElection } from './manager/leader-election.ts';
import { LeaderRecord } from './manager/leader-record.ts';
import { Leadership } from './manager/leadership.ts';
import { Lifecycle } from './manager/lifecycle.ts';
import { PrometheusMetrics } from './manager/metrics.ts';
import { Progress } from './manager/progress.ts';
import { ProgressRequests } from './manager/progress-requests.ts';
import { Recovery } from './manager/recovery.ts';
import { ReplicaRecord, roleOf } from './manager/replica-record.ts';
import { RedisHealth } from './manager/redis-health.ts';
import { type AdminServer, CACHE_PATH, CALLBACK_PATH, KUBERNETES_PATH } from './server/admin-server.ts';
import { CacheApi } from './cache-api/cache-api.ts';
import { KubernetesApi } from './kubernetes-api/kubernetes-api.ts';
import { Catalog } from './cache-api/catalog.ts';
import { BullMqBoard } from './server/bullmq-board.ts';
import { KubernetesIdentities } from './login/kubernetes-identities.ts';
import type { LoginBackend } from './login/login.ts';
import { Sessions } from './login/sessions.ts';
import { StaticTokens } from './login/static-tokens.ts';
import { ReplayRecords } from './workqueue/replay-records.ts';
import { gatewayServer, knowsAll } from './server/gateway-server.ts';

export interface GatewayOptions {
  /** Of this build, for people. Default: `unknown`. */
  readonly version?: string;
  /** For tests: called at the named points between two steps. Default: does nothing. */
  readonly checkpoint?: Checkpoint;
  /**
   * Writes the audit log: a line of level `info` for each change that a person makes. A filter by level would lose
   * these lines. Default: the logger.
   */
  readonly auditLog?: Pick<Logger, 'info'>;
}

/** The cluster that this gateway works for, and its place in Redis. */
interface Connections {
  readonly client: ApiClient;
  /** Of functions that have none of their own. */
  readonly kubernetes: KubernetesCredentials;
  readonly location: RedisLocation;
  /** Of the webhooks. Undefined: there are none, or they have certificates from elsewhere. */
  readonly certificates: GatewayCertificates | undefined;
  /** Undefined: this gateway leads from its start. */
  readonly election: LeaderElection | undefined;
  readonly replica: ReplicaRecord;
}

/** What the cluster's objects are kept in, and what lets functions read it. */
interface Caches {
  readonly writer: GatewayWriter;
  readonly informers: Informers;
  readonly tokenKeys: TokenKeys;
  /** Undefined when functions get none. */
  readonly readerUsers: ReaderUsers | undefined;
}

/** What runs keys, and watches over that. */
interface Running {
  readonly controllers: Controllers;
  readonly recovery: Recovery;
  readonly redisHealth: RedisHealth;
  readonly progress: Progress;
  readonly cacheApi: CacheApi;
  readonly kubernetesApi: KubernetesApi;
  /** The kinds that keys of a controller have named at run time. */
  readonly relatedOf: (id: string, description: Description) => Promise<Resource[]>;
}

/** Where controllers are declared. */
interface Functions {
  readonly configured: ConfiguredFunctions;
  /** Undefined when the settings say that there are none. */
  readonly declared: DeclaredFunctions | undefined;
}

type Parts = Caches &
  Running &
  Functions &
  Pick<Connections, 'certificates' | 'election' | 'client' | 'replica'> & {
    readonly replays: ReplayRecords;
    readonly login: LoginBackend;
    /** Undefined when this gateway leads without an election. */
    readonly leaderRecord: LeaderRecord | undefined;
  };

/**
 * The long-running process, wired together: this is the one place that knows all parts. Start order as
 * controller-runtime's Manager: server, then caches, then controllers; stopped in reverse.
 */
export class Gateway {
  readonly #config: GatewayConfig;
  readonly #version: string;
  readonly #clock = new GatewayClock();
  readonly #metrics = new PrometheusMetrics();
  readonly #runtime: Runtime;
  readonly #lifecycle: Lifecycle;
  readonly #cpuBudgets = new CpuBudgets();
  readonly #board = new BullMqBoard();
  readonly #server: AdminServer;
  readonly #webhooks: Webhooks;
  readonly #stop = new AbortController();
  #redis: Redis | undefined;
  #parts: Parts | undefined;
  #writer: GatewayWriter | undefined;
  /** Undefined when this gateway leads without an election. */
  #leadership: Leadership | undefined;
  /** Once all functions are known. */
  #collectGarbage = async (): Promise<void> => {};
  /** Only then it writes to views, and removes what is left in Redis. */
  readonly #leads = (): boolean => this.#writer?.term !== undefined;
  #fatal: (error: unknown) => void = () => {};

  constructor(config: GatewayConfig, logger: Logger, options: GatewayOptions = {}) {
    const { auditLog = logger, checkpoint = noCheckpoint, version = 'unknown' } = options;
    this.#config = config;
    this.#version = version;
    this.#runtime = { clock: this.#clock, logger, metrics: this.#metrics, checkpoint };
    this.#lifecycle = new Lifecycle(this.#clock, logger);
    const { host, port, allowedHosts, tls, apiTokens, metricsLogin } = config;
    this.#server = gatewayServer({
      listen: { host, port, allowedHosts, tls, metrics: this.#metrics },
      apiTokens,
      metricsLogin,
      auditLog,
      board: this.#board,
      metrics: this.#metrics,
      runtime: this.#runtime,
      parts: () => this.#parts,
    });
    this.#webhooks = new Webhooks({
      config,
      controllers: () => this.#parts?.controllers,
      conditions: (id) => this.#parts?.declared?.conditions(id),
      starting: () => !knowsAll(this.#parts),
      ending: this.#stop.signal,
      leads: this.#leads,
      fatal: (error) => this.#fatal(error),
      runtime: this.#runtime,
    });
  }

  /** `https://host:port` of the reviews of webhooks, once started; undefined when there is no such server. */
  get webhooksUrl(): string | undefined {
    return this.#webhooks.url;
  }

  /** `http://host:port` of health, metrics and dashboard, once started. */
  get url(): string {
    return this.#server.url;
  }

  /**
   * Starts everything that can be started now; functions that do not answer yet are asked again until they do.
   * @param fatal called when another gateway has taken over the views, so that this one must stop.
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
    // All settings are validated before anything is started.
    checkFunctionUrls(this.#config.functionUrls);
    const files = await readConfiguredFiles(this.#config);
    const connections = await this.#connect();
    // Nothing asks for a controller before `run`.
    const caches = this.#createCaches(files, connections, () => running.controllers);
    const running = this.#createControllers(connections, caches);
    this.#run(files, connections, { ...caches, ...running });
  }

  /** The server first: health tells of a start that takes long. */
  async #connect(): Promise<Connections> {
    const { clusterId: named, keyPrefix, kubeconfig, redisUrl, apiserverLimits } = this.#config;
    const { logger, metrics } = this.#runtime;
    const { signal } = this.#stop;
    await this.#server.start();
    this.#lifecycle.started('server', () => this.#server.stop());
    logger.info({ url: this.#server.url }, 'listening');
    this.#lifecycle.started('webhook server', () => this.#webhooks.stop());
    await this.#webhooks.start();

    const redis = await connectRedis(redisUrl, { files: this.#config.redisFiles, logger });
    this.#redis = redis;
    this.#lifecycle.started('redis', async () => redis.disconnect());
    await refuseUnusable(redis, redisUrl);
    signal.throwIfAborted();

    const credentials = await loadCredentials(kubeconfig, metrics);
    this.#lifecycle.started('apiserver', () => credentials.close());
    const client = new ApiClient(credentials, metrics, new FlowControl(apiserverLimits));
    const clusterId = named ?? (await identify(client));
    signal.throwIfAborted();
    logger.info({ cluster: clusterId, server: client.server, redis: withoutPassword(redisUrl) }, 'connected');

    const location = redisLocation(redis, keyPrefix, clusterId);
    await checkDataVersion(location);
    // Before anything is timed that outlives this process.
    await this.#clock.continueFrom(redis, location.registryKey, logger);
    const keeping = this.#clock.keep(redis, location.registryKey, { logger, signal, leads: this.#leads });
    this.#lifecycle.started('clock', () => keeping);
    const lease = electionLease(this.#config.lease, credentials.podNamespace);
    const election = lease && this.#election(lease, new ApiClient(credentials, metrics));
    if (!election) await raiseDataVersion(location);
    const kubernetes = this.#kubernetesCredentials(client, credentials);
    const certificates = this.#webhooks.createCertificates(client, credentials.podNamespace);
    return { client, kubernetes, location, certificates, election, replica: this.#recordReplica(location, election) };
  }

  #recordReplica(location: RedisLocation, election: LeaderElection | undefined): ReplicaRecord {
    const replica = new ReplicaRecord({
      runtime: this.#runtime,
      location,
      id: election?.identity ?? `${hostname()}_${randomUUID()}`,
      version: this.#version,
      role: () => roleOf(this.#parts),
    });
    const recording = replica.run(this.#stop.signal);
    this.#lifecycle.started('replica record', () => recording);
    return replica;
  }

  #kubernetesCredentials(client: ApiClient, credentials: Credentials): KubernetesCredentials {
    const { apiserverUrl } = this.#config;
    const { clock, logger } = this.#runtime;
    return new KubernetesCredentials({
      client,
      tokens: new AccountTokens({ client, clock, logger }),
      apiserver: {
        url: apiserverUrl ?? credentials.server,
        inCluster: apiserverUrl === undefined && credentials.podNamespace !== undefined,
        ca: async () => (await credentials.access()).ca,
      },
      proxyUrl: () => this.#belowOuterUrl(KUBERNETES_PATH),
    });
  }

  /** @param client without flow control: a renewal of the Lease must not wait for other requests. */
  #election(lease: LeaseKey, client: ApiClient): LeaderElection {
    const { leaseTiming: timing } = this.#config;
    // Not the gateway's clock, which may be set.
    return new LeaderElection({ runtime: { ...this.#runtime, clock: systemClock }, client, lease, timing });
  }

  #createCaches(
    files: ConfiguredFiles,
    { client, election, location }: Connections,
    controllers: () => Controllers,
  ): Caches {
    const runtime = this.#runtime;
    const controller = (id: string): RunningController | undefined => controllers().known().get(id);
    const progressRequests = new ProgressRequests({ location, informers: () => informers, logger: runtime.logger });
    const writer = new GatewayWriter({
      logger: runtime.logger,
      onReplaced: () => this.#onReplaced(),
      askLeader: (viewPrefix) => progressRequests.send(viewPrefix),
    });
    this.#writer = writer;
    if (election) this.#lifecycle.started('progress requests', progressRequests.listen());
    else writer.begin(new AbortController().signal);
    const informers = new Informers({
      runtime,
      location,
      client,
      settings: files.cache,
      keyRing: files.keyRing,
      compressAbove: this.#config.cacheCompressAbove,
      writer,
      listeners: {
        enqueue: (wakeups) => controllers().enqueue(wakeups),
        onHandlerError: (id, error, object) => controller(id)?.recordFailure(error, object),
        lookupBudget: (id) => controller(id)?.lookupBudget,
        onUndeliverable: (id, error) => controller(id)?.recordFailure(error),
        onViewChanged: (ids) => ids.forEach((id) => this.#wakeDeclared(id)),
      },
    });
    this.#lifecycle.started('informers', () => informers.stop());
    const tokenKeys = new TokenKeys({ redis: location.redis, hash: location.tokenKeysKey, clock: runtime.clock });
    const readerUsers = this.#config.redisUsers
      ? new ReaderUsers({ runtime, location, complete: () => knowsAll(this.#parts), leads: this.#leads })
      : undefined;
    return { writer, informers, tokenKeys, readerUsers };
  }

  #createControllers(connections: Connections, caches: Caches): Running {
    const runtime = this.#runtime;
    const { client, location } = connections;
    const { informers, readerUsers, writer } = caches;
    const { clusterId, drainMs } = this.#config;
    const factory = this.#controllerFactory(connections, caches);
    const relatedOf: Running['relatedOf'] = (id, description) =>
      factory.relatedOf(id, description, controllers.get(id));
    const controllers = new Controllers({
      runtime,
      create: (spec) => factory.create(spec),
      informers,
      readerUsers,
      recovery: {
        check: (signal) => recovery.check(signal),
        waitsFor: (controller) => recovery.waitsFor(controller),
      },
      events: {
        onRunning: ({ name, queue, reviews }) => {
          this.#board.add(name, queue.bullmq);
          void this.#webhooks.keepOnly(name, reviews?.webhooks.map(({ webhook }) => webhook.name) ?? []);
        },
        onStopped: ({ name }) => this.#board.remove(name),
        forget: async (id, endMs) => {
          if (this.#leads()) await forgetController(location, runtime.clock, id, endMs);
          await runtime.metrics.forget({ controller: id });
          await runtime.metrics.forget({ name: id });
          await this.#webhooks.keepOnly(id, []);
        },
      },
      drainMs,
      ending: this.#stop.signal,
    });
    const recovery = new Recovery({
      runtime,
      location,
      informers: () => informers.all(),
      controllers: () => controllers.running(),
      writer,
      lease: new DispatchLease({ runtime, client, location, clusterId }),
      ownRuns: factory.ownRuns,
      onWaitChanged: ({ name }) => this.#wakeDeclared(name),
    });
    const redisHealth = new RedisHealth(location.redis, runtime);
    const progress = new Progress({
      runtime,
      // Events and wakeups of a view concern the gateway that leads.
      informers: () => (this.#leads() ? informers.all() : []),
      controllers: () => controllers.running(),
      // Of the others their own condition tells.
      isNeededForReady: (id) => controllers.countsForReady(id),
      onStandstill: (id) => this.#wakeDeclared(id),
    });
    const cacheApi = this.#cacheApi(connections, caches, { controllers, recovery });
    const kubernetesApi = new KubernetesApi({
      runtime,
      client,
      verify: (token) => caches.tokenKeys.verifyRuns(token),
      controller: (id) => controllers.known().get(id)?.proxied,
      available: () => recovery.healthy,
      starting: () => !knowsAll(this.#parts),
    });
    return { controllers, recovery, redisHealth, progress, cacheApi, kubernetesApi, relatedOf };
  }

  /** Last what declares controllers: from then on they come and go. */
  #run(files: ConfiguredFiles, connections: Connections, made: Caches & Running): void {
    const { controllers, kubernetesApi, progress, readerUsers, recovery, redisHealth } = made;
    const { signal } = this.#stop;
    const { drainMs } = this.#config;
    const declared = this.#declaredFunctions(files, connections, made);
    const configured = this.#configuredFunctions(files, connections, { ...made, declared });
    const login = this.#login(files, connections);
    const { certificates, client, election, location, replica } = connections;
    const { leaseTiming: timing } = this.#config;
    const replays = new ReplayRecords(location, this.#runtime.clock);
    const leaderRecord = election && new LeaderRecord({ runtime: this.#runtime, location, election, timing });
    this.#parts = {
      ...made,
      certificates,
      configured,
      declared,
      election,
      client,
      leaderRecord,
      login,
      replica,
      replays,
    };

    const checking = recovery.run(signal);
    this.#lifecycle.started('recovery', () => checking);
    const looking = redisHealth.run(signal);
    this.#lifecycle.started('redis health', () => looking);
    const watching = progress.run(signal);
    this.#lifecycle.started('progress', () => watching);
    const sweeping = sweepRegistry(connections.location, this.#runtime, { signal, leads: this.#leads });
    this.#lifecycle.started('sweep', () => sweeping);
    const certifying = certificates && this.#webhooks.certify(certificates);
    this.#lifecycle.started('certificates', async () => certifying);
    const comparing = leaderRecord?.run(signal);
    this.#lifecycle.started('leader record', async () => comparing);
    const updating = readerUsers?.run(signal);
    this.#lifecycle.started('redis users', async () => updating);
    this.#lifecycle.started('controllers', async () => {
      const endMs = systemClock.now() + drainMs;
      await controllers.stopAll();
      // After the runs of this gateway, which write until then, and before Redis and the apiserver are let go.
      await kubernetesApi.stop(Math.max(LAST_WRITES_MS, endMs - systemClock.now()));
      await recovery.release();
    });
    declared?.start(signal);
    this.#lifecycle.started('reconcilefunctions', async () => declared?.stopped());
    configured.start(signal);
    this.#lifecycle.started('functions', () => configured.stopped());
    if (connections.election) this.#standForElection(connections.election, connections.location, this.#parts);
  }

  #controllerFactory(
    { client, kubernetes, location }: Connections,
    { informers, readerUsers, tokenKeys }: Caches,
  ): ControllerFactory {
    const { cacheTokenMs, historyRuns, logTriggers, resyncMs, startWindowMs } = this.#config;
    return new ControllerFactory({
      runtime: this.#runtime,
      location,
      client,
      informers,
      wayBack: {
        kubernetes,
        tokenKeys,
        cacheTokenMs,
        readerUsers,
        cacheUrl: this.#outerUrl(),
        callbackUrl: (id) => this.#callbackUrlFor(id),
      },
      cpuBudgets: this.#cpuBudgets,
      settings: { resyncMs, logTriggers, historyRuns, startWindowMs },
      on: {
        changed: (id) => this.#wakeDeclared(id),
        relatedKinds: (id) => this.#parts?.declared?.review(id),
      },
    });
  }

  #declaredFunctions(
    files: ConfiguredFiles,
    { client, kubernetes }: Connections,
    { controllers, progress, relatedOf }: Running,
  ): DeclaredFunctions | undefined {
    const { allowedEndpoints, maxFunctionsPerNamespace, reconcileFunctions: which, reviewMs } = this.#config;
    const runtime = this.#runtime;
    if (which === 'none') return undefined;
    return new DeclaredFunctions({
      runtime,
      client,
      controllers,
      resolver: new FunctionResolver({
        client,
        cache: { settings: files.cache, canEncrypt: files.keyRing !== undefined, relatedOf },
        allowedEndpoints,
        cpuBudgets: this.#cpuBudgets,
        clock: runtime.clock,
        hasOuterUrl: this.#outerUrl() !== undefined,
        kubernetes,
      }),
      writer: new FunctionStatusWriter({ runtime, client, leads: this.#leads }),
      standstill: (id) => progress.standstill(id),
      reviewMs,
      select: { labelSelector: which === 'all' ? undefined : which, maxPerNamespace: maxFunctionsPerNamespace },
    });
  }

  #configuredFunctions(
    { keys, ca }: ConfiguredFiles,
    { location }: Connections,
    {
      controllers,
      declared,
      informers,
      relatedOf,
    }: Pick<Parts, 'controllers' | 'declared' | 'informers' | 'relatedOf'>,
  ): ConfiguredFunctions {
    const { signal } = this.#stop;
    const spec = async (description: Description, url: string): Promise<ControllerSpec> => {
      const related = await relatedOf(description.name, description);
      return { id: description.name, origin: 'configured', description, related, url, keys, ca };
    };
    const isOutdated = (controller: RunningController): boolean => controller.outdated || controller.lacksRelatedKinds;
    return new ConfiguredFunctions({
      runtime: this.#runtime,
      urls: this.#config.functionUrls,
      keys,
      ca,
      add: async (description, url) => controllers.start(await spec(description, url), signal),
      // A controller that was given up while it was being changed does not run at all.
      outdated: ({ name }) => {
        const controller = controllers.get(name);
        return !controller || isOutdated(controller);
      },
      change: async (description, url) => controllers.apply(await spec(description, url), { signal }),
      complete: async (names) => {
        await declared?.complete;
        if (signal.aborted) return;
        this.#collectGarbage = async () => {
          const known = new Set([...names, ...controllers.known().keys()]);
          await collectGarbage(location, this.#runtime, informers, { configured: known, declared: declared?.ids() });
        };
        if (this.#leads()) await this.#collectGarbage();
      },
    });
  }

  #cacheApi(
    { client }: Connections,
    { informers, tokenKeys }: Caches,
    { controllers, recovery }: Pick<Running, 'controllers' | 'recovery'>,
  ): CacheApi {
    const views = () =>
      informers.all().map((informer) => ({
        view: informer.view,
        requestProgress: () => informer.requestProgress(),
        checked: () => !recovery.isRepairing(informer.view),
      }));
    return new CacheApi({
      runtime: this.#runtime,
      catalog: new Catalog(views, client, () => this.#clock.now()),
      verify: async (token) => controllers.current(await tokenKeys.verify(token)),
      available: () => recovery.healthy,
      listLimit: this.#config.cacheListLimit,
      requestsPerSecond: this.#config.cacheRequestsPerSecond,
    });
  }

  /** Requests of people have a limit of their own at the apiserver, under a name that no controller has. */
  #login({ adminTokens }: ConfiguredFiles, { client, location }: Connections): LoginBackend {
    const { logger } = this.#runtime;
    const kubernetes = new KubernetesIdentities({ client: client.for(':login'), clock: systemClock, logger });
    return { identities: [new StaticTokens(adminTokens), kubernetes], sessions: new Sessions(location) };
  }

  /** Stands for election, and leads whenever it is elected. */
  #standForElection(
    election: LeaderElection,
    location: RedisLocation,
    { declared, informers, recovery, writer }: Parts,
  ): void {
    const leadership = new Leadership({
      runtime: this.#runtime,
      location,
      writer,
      informers,
      election,
      withoutRedisMs: this.#config.leaseTiming.renewMs,
      onLead: (signal) => {
        declared?.lead();
        void recovery.check(signal);
        void this.#collectGarbage();
      },
      fatal: (error) => this.#fatal(error),
    });
    this.#leadership = leadership;
    const running = leadership.run(this.#stop.signal);
    // Stopped first: another gateway leads while the runs in flight of this one end.
    this.#lifecycle.started('leader election', () => running);
  }

  /** A view carries another gateway's ID. */
  #onReplaced(): void {
    if (this.#leadership) this.#leadership.retake();
    else this.#fatal(new UserError('Another gateway has taken over this cluster: this one stops.'));
  }

  /** Where a function may send the outcome of a run that goes on. It is signed, and holds no secret. */
  #callbackUrlFor(controller: string): string | undefined {
    const url = this.#belowOuterUrl(CALLBACK_PATH);
    return url === undefined ? undefined : `${url}/${controller}`;
  }

  /** A path below that of the cache, as functions reach it. */
  #belowOuterUrl(path: string): string | undefined {
    const url = this.#outerUrl();
    return url === undefined ? undefined : url + path.slice(CACHE_PATH.length);
  }

  /** What the conditions of a ReconcileFunction are about has changed; does nothing for another controller. */
  #wakeDeclared(id: string): void {
    this.#parts?.declared?.wake(id);
  }

  /** Where functions reach this gateway. */
  #outerUrl(): string | undefined {
    if (this.#config.cacheUrl !== undefined) return this.#config.cacheUrl;
    return isLoopback(new URL(this.#server.url).hostname) ? this.#server.url + CACHE_PATH : undefined;
  }
}

/** For proxied writes that are under way when the runs have taken the whole time of the drain. */
const LAST_WRITES_MS = 2000;

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
