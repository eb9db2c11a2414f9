import {
  backoffMs,
  type Checkpoint,
  type Logger,
  noCheckpoint,
  type Runtime,
  systemClock,
  UnavailableError,
  UserError,
} from '../core/index.ts';
import { TokenError } from './controller/access/token.ts';
import type { ApiClient } from '../ground/apiserver/api-client.ts';
import { CacheApi } from './http/cache-api/cache-api.ts';
import { Catalog } from './http/cache-api/catalog.ts';
import { ReadingTimes } from './http/cache-api/reading-time.ts';
import { GatewayWriter } from './informer/cache/gateway-writer.ts';
import type { GatewayCertificates } from './certificates/gateway-certificates.ts';
import type { GatewayConfig } from '../ground/config/config.ts';
import { type ConfiguredFiles, readConfiguredFiles } from '../ground/config/files.ts';
import { checkFunctionUrls } from './controller/endpoint/endpoint-rules.ts';
import { KubernetesApi, type ProxyClient } from './http/write-proxy/kubernetes-api.ts';
import { createLoginBackend } from './http/login/login-backend.ts';
import { type ClusterConnection, connectCluster } from './process/cluster-connection.ts';
import { GatewayClock } from './process/gateway-clock.ts';
import { report } from './process/health.ts';
import { LeaderHandover } from './election/leader-handover.ts';
import { LeaderRecord } from './election/leader-record.ts';
import { Leadership } from './election/leadership.ts';
import { Lifecycle } from './process/lifecycle.ts';
import { Manager } from './process/manager.ts';
import { PrometheusMetrics } from './process/metrics.ts';
import { OpenTelemetryTraces } from './process/opentelemetry-traces.ts';
import { TracedChanges } from './process/traced-changes.ts';
import { ProgressRequests } from './process/progress-requests.ts';
import { NO_NEEDS, ReplicaRecord, roleOf } from './election/replica-record.ts';
import { connectRedis, type Redis } from '../ground/redis/redis.ts';
import { refuseUnusable } from '../ground/redis/redis-server.ts';
import type { AdminServer } from './http/server/admin-server.ts';
import { gatewayServer, gatewayChecks, type ServedParts } from './http/server/gateway-server.ts';
import { OuterUrls } from './http/server/outer-urls.ts';
import { Webhooks } from './http/webhooks/webhooks.ts';
import { ReplayRecords } from './controller/workqueue/records/replay-records.ts';

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

/** The base of all parts, once the cluster is connected. */
interface Connected {
  readonly files: ConfiguredFiles;
  readonly urls: OuterUrls;
  readonly cluster: ClusterConnection;
  /** Undefined when the gateway makes none. */
  readonly certificates: GatewayCertificates | undefined;
  readonly replica: ReplicaRecord;
}

/** The parts of a gateway that has started. */
interface Parts extends ServedParts {
  readonly certificates: Connected['certificates'];
  readonly manager: Manager;
  /** The last four are undefined when this gateway leads without an election. */
  readonly progressRequests: ProgressRequests | undefined;
  readonly leaderRecord: LeaderRecord | undefined;
  readonly handover: LeaderHandover | undefined;
  readonly leadership: Leadership | undefined;
}

/** How soon a start tries again that waits for Redis or the apiserver: first, and at most. */
const START_AGAIN_MS = [250, 5000] as const;
/** For proxied writes that are under way when the runs have taken the whole time of the drain. */
const LAST_WRITES_MS = 2000;

/**
 * The long-running process, wired together: this is the one place that knows all parts. It starts in this order, like
 * controller-runtime's Manager, and stops in the reverse order of its calls of `Lifecycle.started`:
 *
 * - `#listen`: the server, because health must answer during a long start, and the server of webhooks.
 * - `#connect`: Redis, then the apiserver and the clock (`connectCluster`).
 * - `#recordReplica`: from then on the other gateways know this one.
 * - `#createParts` starts nothing. `Manager` has the controllers, the sources of their declarations and the parts that
 *   watch over them; the APIs, the login and the leadership are made around it.
 * - `#run`: informers and all parts that watch over the cache, then controllers, then functions, then the leadership.
 */
export class Gateway {
  readonly #config: GatewayConfig;
  readonly #version: string;
  readonly #clock = new GatewayClock();
  readonly #metrics = new PrometheusMetrics();
  readonly #runtime: Runtime & { readonly clock: GatewayClock };
  readonly #lifecycle: Lifecycle;
  readonly #times = new ReadingTimes(this.#clock);
  readonly #traces: OpenTelemetryTraces | undefined;
  readonly #server: AdminServer;
  readonly #webhooks: Webhooks;
  readonly #writer: GatewayWriter;
  readonly #stop = new AbortController();
  #redis: Redis | undefined;
  #parts: Parts | undefined;
  /** Why the start waits; undefined while it does not. */
  #startWaitsFor: string | undefined;
  /** Only the leading gateway writes to views, and removes leftovers in Redis. */
  readonly #leads = (): boolean => this.#writer.term !== undefined;
  #fatal: (error: unknown) => void = () => {};

  constructor(config: GatewayConfig, logger: Logger, options: GatewayOptions = {}) {
    const { auditLog = logger, checkpoint = noCheckpoint, version = 'unknown' } = options;
    this.#config = config;
    this.#version = version;
    const { traceCollector: collector, traceRatio: ratio, traceUrl: url } = config;
    this.#traces = collector === undefined ? undefined : new OpenTelemetryTraces({ collector, ratio, url, version });
    this.#runtime = { clock: this.#clock, logger, metrics: this.#metrics, checkpoint, traces: this.#traces };
    this.#lifecycle = new Lifecycle(this.#clock, logger);
    const { host, port, allowedHosts, tls, apiTokens, metricsLogin, loginOnLoopback } = config;
    this.#server = gatewayServer({
      listen: { host, port, allowedHosts, tls, metrics: this.#metrics },
      apiTokens,
      login: { metrics: metricsLogin, onLoopback: loginOnLoopback, auditLog },
      metrics: this.#metrics,
      runtime: this.#runtime,
      times: this.#times,
      parts: () => this.#parts,
      startWaitsFor: () => this.#startWaitsFor,
    });
    this.#writer = new GatewayWriter({
      logger,
      onReplaced: () => this.#onReplaced(),
      askLeader: (viewPrefix) => this.#parts?.progressRequests?.send(viewPrefix),
    });
    this.#webhooks = new Webhooks({
      config,
      controllers: () => this.#parts?.manager.controllers,
      conditions: (id) => this.#parts?.manager.declared?.conditions(id),
      starting: () => !this.#parts?.manager.knowsAll,
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
   * Starts everything that can be started now; functions that do not answer yet are asked again until they do. The
   * start waits for a Redis or an apiserver that does not answer: until then the gateway is alive, and not ready.
   * @param fatal called when another gateway has taken over the views, so that this one must stop.
   * @throws UserError when a setting is wrong, Redis or the apiserver refuses the gateway, or the port is taken; then
   *   nothing is left running.
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
    await this.#traces?.start();
    this.#lifecycle.started('traces', async () => this.#traces?.stop());
    await this.#listen();
    const urls = new OuterUrls(this.#server.url, this.#config.cacheUrl);
    const cluster = await this.#connect(urls);
    this.#traces?.linkThrough(new TracedChanges(cluster.location));
    const certificates = this.#webhooks.createCertificates(cluster.client, cluster.podNamespace);
    const replica = this.#recordReplica(cluster);
    this.#parts = this.#createParts({ files, urls, cluster, certificates, replica });
    this.#run(this.#parts);
  }

  async #listen(): Promise<void> {
    await this.#server.start();
    this.#lifecycle.started('server', () => this.#server.stop());
    this.#runtime.logger.info({ url: this.#server.url }, 'listening');
    this.#lifecycle.started('webhook server', () => this.#webhooks.stop());
    await this.#webhooks.start();
  }

  async #connect(urls: OuterUrls): Promise<ClusterConnection> {
    const { redisFiles, redisUrl } = this.#config;
    const { signal: ending } = this.#stop;
    const { logger } = this.#runtime;
    const redis = await this.#untilAvailable(() => connectRedis(redisUrl, { files: redisFiles, logger }));
    this.#redis = redis;
    this.#lifecycle.started('redis', async () => redis.disconnect());
    await refuseUnusable(redis, redisUrl);
    ending.throwIfAborted();
    return connectCluster({
      runtime: this.#runtime,
      config: this.#config,
      redis,
      proxyUrl: () => urls.kubernetes,
      leads: this.#leads,
      lifecycle: this.#lifecycle,
      untilAvailable: (attempt) => this.#untilAvailable(attempt),
      ending,
    });
  }

  /** Repeats an attempt that fails with an UnavailableError. @throws other errors; the reason of a stop. */
  async #untilAvailable<T>(attempt: () => Promise<T>): Promise<T> {
    const { logger } = this.#runtime;
    const { signal } = this.#stop;
    for (let failures = 1; ; failures += 1) {
      signal.throwIfAborted();
      try {
        const result = await attempt();
        if (this.#startWaitsFor !== undefined) logger.info({}, 'the start goes on');
        this.#startWaitsFor = undefined;
        return result;
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw error;
        const reason = error.message;
        if (this.#startWaitsFor !== reason) logger.warn({ reason }, 'the start waits, trying again');
        this.#startWaitsFor = reason;
      }
      await systemClock.sleep(backoffMs(START_AGAIN_MS, failures), signal);
    }
  }

  #recordReplica({ identity, location }: ClusterConnection): ReplicaRecord {
    const replica = new ReplicaRecord({
      runtime: this.#runtime,
      location,
      id: identity,
      version: this.#version,
      role: () => roleOf(this.#parts),
      standing: () => this.#parts?.handover?.standing ?? NO_NEEDS,
    });
    const recording = replica.run(this.#stop.signal);
    this.#lifecycle.started('replica record', () => recording);
    return replica;
  }

  #createParts({ cluster, files, urls, ...made }: Connected): Parts {
    const runtime = this.#runtime;
    const { logger } = runtime;
    const { leaseTiming: timing } = this.#config;
    const { client, election, location } = cluster;
    const manager = this.#createManager(files, cluster, urls);
    const { accounts, controllers, informers, recovery, tokenKeys } = manager;
    const leadership =
      election &&
      new Leadership({
        runtime,
        location,
        writer: this.#writer,
        informers,
        election,
        withoutRedisMs: timing.renewMs,
        successor: () => this.#parts?.handover?.successor,
        on: { lead: (signal) => manager.lead(signal), unusable: (error) => this.#fatal(error) },
      });
    const kubernetesApi = new KubernetesApi({
      runtime,
      client,
      times: this.#times,
      verify: (token) => {
        const claims = tokenKeys.verify('levelhook-kubernetes', token);
        const { controller, expiresAt, runs } = claims;
        if (!runs) throw new TokenError('the token names no runs');
        const proxied = controllers.known().has(controller) ? controllers.holder(claims)?.proxied : undefined;
        const goesOn: ProxyClient['goesOn'] = (named = runs) => manager.goesOn({ ...claims, runs: named });
        const hasAccount: ProxyClient['hasAccount'] = async () => !proxied || accounts.isThere(proxied.account);
        return { controller, proxied, runs, expiresAt, goesOn, hasAccount };
      },
      available: () => recovery.healthy,
      mayCome: (id) => manager.mayCome(id),
    });
    return {
      ...made,
      manager,
      cacheApi: this.#createCacheApi(client, manager),
      kubernetesApi,
      client,
      election,
      progressRequests: election && new ProgressRequests({ location, informers: () => informers, logger }),
      leaderRecord: election && new LeaderRecord({ runtime, location, election, timing }),
      handover:
        election &&
        new LeaderHandover({
          runtime,
          location,
          known: manager,
          replica: made.replica,
          leads: this.#leads,
          isReady: () => report(gatewayChecks(() => this.#parts)).healthy,
        }),
      leadership,
      login: createLoginBackend({ adminTokens: files.adminTokens, client, location, logger }),
      replays: new ReplayRecords(location, runtime.clock),
    };
  }

  /** Starts the sources of declarations last: from then on controllers come and go. */
  #run(parts: Parts): void {
    const { certificates, handover, kubernetesApi, leaderRecord, leadership, manager, progressRequests } = parts;
    const { configured, controllers, declared, readerUsers, recovery } = manager;
    const { signal } = this.#stop;
    const { drainMs } = this.#config;
    if (progressRequests) this.#lifecycle.started('progress requests', progressRequests.listen());
    else this.#writer.begin(new AbortController().signal);
    manager.start(this.#lifecycle);
    const certifying = certificates && this.#webhooks.certify(certificates);
    this.#lifecycle.started('certificates', async () => certifying);
    const comparing = leaderRecord?.run(signal);
    this.#lifecycle.started('leader record', async () => comparing);
    const handingOver = handover?.run(signal);
    this.#lifecycle.started('leader handover', async () => handingOver);
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
    const leading = leadership?.run(signal);
    // Stopped first: another gateway leads while the runs in flight of this one end.
    this.#lifecycle.started('leader election', async () => leading);
  }

  #createManager(files: ConfiguredFiles, cluster: ClusterConnection, urls: OuterUrls): Manager {
    return new Manager({
      runtime: this.#runtime,
      config: this.#config,
      files,
      cluster,
      writer: this.#writer,
      urls: { cacheUrl: urls.cache, callbackUrl: (id) => urls.callback(id) },
      events: {
        onRunning: ({ name, reviews }) => {
          void this.#webhooks.keepOnly(name, reviews?.webhooks.map(({ webhook }) => webhook.name) ?? []);
        },
        onForgotten: (id) => this.#webhooks.keepOnly(id, []),
      },
      ending: this.#stop.signal,
    });
  }

  #createCacheApi(client: ApiClient, manager: Manager): CacheApi {
    const { accounts, controllers, informers, recovery, tokenKeys } = manager;
    const views = () =>
      informers.all().map((informer) => ({
        view: informer.view,
        requestProgress: () => informer.requestProgress(),
        checked: () => !recovery.isRepairing(informer.view),
      }));
    return new CacheApi({
      runtime: this.#runtime,
      catalog: new Catalog(views, client, () => this.#clock.now()),
      verify: (token) => {
        const claims = tokenKeys.verify('levelhook-cache', token);
        const scope = controllers.scopeOf(claims);
        const account = controllers.holder(claims)?.account;
        const { controller: name, positions } = claims;
        const goesOn = async (): Promise<boolean> => {
          const [isThere, goOn] = await Promise.all([!account || accounts.wasThere(account), manager.goesOn(claims)]);
          return isThere && goOn;
        };
        return { name, scope, positions, goesOn };
      },
      available: () => recovery.healthy,
      times: this.#times,
      listLimit: this.#config.cacheListLimit,
      requestsPerSecond: this.#config.cacheRequestsPerSecond,
    });
  }

  /** A view carries another gateway's ID. */
  #onReplaced(): void {
    const leadership = this.#parts?.leadership;
    if (leadership) leadership.retake();
    else this.#fatal(new UserError('Another gateway has taken over this cluster: this one stops.'));
  }
}
