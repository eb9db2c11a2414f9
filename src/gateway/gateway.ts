import { randomUUID } from 'node:crypto';
import {
  type Clock,
  formatKind,
  type GroupVersionKind,
  type Logger,
  messageOf,
  type Resource,
  systemClock,
  UserError,
} from '../core/index.ts';
import { importSecret, type SigningKey, viewPrefix } from '../contract/index.ts';
import { ApiClient } from './apiserver/api-client.ts';
import { type Credentials, loadCredentials } from './apiserver/credentials.ts';
import { clusterIdentity, discoverResource } from './apiserver/discovery.ts';
import type { Wakeup } from './cache/change.ts';
import { Informer } from './cache/informer.ts';
import { connectRedis, type Redis, withoutPassword } from './cache/redis.ts';
import { View } from './cache/view.ts';
import type { GatewayConfig } from './config.ts';
import { Controller } from './controllers/controller.ts';
import { describeFunction } from './controllers/describe.ts';
import { Endpoint } from './dispatch/endpoint.ts';
import type { HealthCheck } from './manager/health.ts';
import { Lifecycle } from './manager/lifecycle.ts';
import { PrometheusMetrics } from './manager/metrics.ts';
import { Recovery } from './manager/recovery.ts';
import { AdminServer } from './server/admin-server.ts';
import { Dashboard } from './server/dashboard.ts';
import { BullMqWorkQueue } from './workqueue/bullmq-work-queue.ts';

/** What of a resource a view holds; part of its keys. One setting so far: everything, without managedFields. */
const VIEW_SETTINGS = 'all';

/**
 * The long-running process, wired together: this is the one place that knows all parts. Start order as
 * controller-runtime's Manager: server, then caches, then controllers; stopped in reverse.
 */
export class Gateway {
  readonly #config: GatewayConfig;
  readonly #clock: Clock = systemClock;
  readonly #logger: Logger;
  readonly #metrics = new PrometheusMetrics();
  readonly #lifecycle: Lifecycle;
  readonly #dashboard = new Dashboard();
  readonly #stop = new AbortController();
  /** Written into every view: the scripts refuse a writer with another one. */
  readonly #term = randomUUID();
  readonly #informers = new Map<string, Informer>();
  readonly #controllers = new Map<string, Controller>();
  /** By URL, those that have not described themselves yet, and why. */
  readonly #awaited = new Map<string, string>();
  #server: AdminServer | undefined;
  #recovery: Recovery | undefined;
  #fatal: (error: unknown) => void = () => {};

  constructor(config: GatewayConfig, logger: Logger) {
    this.#config = config;
    this.#logger = logger;
    this.#lifecycle = new Lifecycle(this.#clock, logger);
  }

  /** `http://host:port` of health, metrics and dashboard, once started. */
  get url(): string {
    return this.#server?.url ?? '';
  }

  /** Every function has described itself, every view is complete and keys are being run. */
  get ready(): boolean {
    return this.#troubleWithFunctions() === undefined && this.#recovery?.healthy === true;
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
    await this.#lifecycle.stop(this.#config.drainMs + 5000);
  }

  async #start(): Promise<void> {
    const { config, keys } = { config: this.#config, keys: await this.#signingKeys() };
    await this.#startServer();
    const redis = await connectRedis(config.redisUrl);
    this.#lifecycle.started('redis', async () => redis.disconnect());
    const credentials = await loadCredentials(config.kubeconfig);
    this.#lifecycle.started('apiserver', () => credentials.close());
    const client = new ApiClient(credentials, this.#metrics);
    const clusterId = config.clusterId ?? (await this.#identify(client, credentials));
    this.#logger.info(
      { cluster: clusterId, server: client.server, redis: withoutPassword(config.redisUrl) },
      'connected',
    );

    const recovery = new Recovery({
      redis,
      registryKey: `{${config.keyPrefix}:v1:${clusterId}}:gateway`,
      informers: () => [...this.#informers.values()],
      controllers: () => [...this.#controllers.values()],
      nothingInFlight: config.nothingInFlight,
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics,
    });
    this.#recovery = recovery;
    this.#lifecycle.started('informers', async () => {
      await Promise.all([...this.#informers.values()].map((informer) => informer.stop()));
    });
    const checking = recovery.run(this.#stop.signal);
    this.#lifecycle.started('recovery', () => checking);
    this.#lifecycle.started('controllers', async () => {
      await Promise.all([...this.#controllers.values()].map((each) => each.stop(this.#config.drainMs)));
    });
    for (const url of config.functionUrls) {
      this.#awaited.set(url, 'not asked yet');
      void this.#addFunction(url, { redis, client, clusterId, keys });
    }
  }

  async #startServer(): Promise<void> {
    const live = new Map<string, HealthCheck>([['ping', () => undefined]]);
    const ready = new Map<string, HealthCheck>([
      ['redis', () => (this.#recovery?.healthy ? undefined : 'not connected, or being checked after a loss')],
      ['informers', () => this.#troubleWithInformers()],
      ['functions', () => this.#troubleWithFunctions()],
    ]);
    const { host, port } = this.#config;
    const metrics = (): Promise<string> => this.#renderMetrics();
    this.#server = new AdminServer({ host, port, live, ready, metrics, dashboard: this.#dashboard });
    await this.#server.start();
    const server = this.#server;
    this.#lifecycle.started('server', () => server.stop());
    this.#logger.info({ url: server.url }, 'listening');
  }

  async #signingKeys(): Promise<SigningKey[]> {
    const { functionUrls, signingSecrets } = this.#config;
    if (functionUrls.length > 0 && signingSecrets.length === 0) {
      throw new UserError('LEVELHOOK_SIGNING_SECRETS is not set: functions accept signed triggers only.');
    }
    return Promise.all(
      signingSecrets.map((secret) =>
        importSecret(secret).catch((error: unknown) => {
          throw new UserError(`LEVELHOOK_SIGNING_SECRETS is wrong: ${messageOf(error)}.`);
        }),
      ),
    );
  }

  async #identify(client: ApiClient, credentials: Credentials): Promise<string> {
    try {
      return await clusterIdentity(client);
    } catch (error) {
      throw new UserError(
        `The apiserver at ${credentials.server} cannot be used (${messageOf(error)}): check the kubeconfig.`,
      );
    }
  }

  /** Asks a function what it is until it answers, then starts its controller. Never rejects. */
  async #addFunction(url: string, parts: Parts): Promise<void> {
    const { signal } = this.#stop;
    let waitMs = 250;
    while (!signal.aborted) {
      // Its own pool, replaced below once the concurrency is known.
      const endpoint = new Endpoint(url, parts.keys, 1);
      try {
        await this.#startController(await describeFunction(endpoint), url, parts);
        this.#awaited.delete(url);
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (this.#awaited.get(url) !== messageOf(error)) {
          this.#logger.warn({ url, error: messageOf(error) }, 'a function cannot be used yet, asking again');
        }
        this.#awaited.set(url, messageOf(error));
      } finally {
        await endpoint.close();
      }
      await this.#clock.sleep(waitMs, signal);
      waitMs = Math.min(waitMs * 2, 5000);
    }
  }

  async #startController(
    description: Awaited<ReturnType<typeof describeFunction>>,
    url: string,
    parts: Parts,
  ): Promise<void> {
    const { redis, clusterId } = parts;
    const { name, concurrency, timeoutSeconds } = description;
    if (this.#controllers.has(name)) throw new UserError(`Two functions call their controller "${name}": rename one.`);
    const [resource, ...others] = await this.#resources(description, parts.client);
    if (!resource) return;
    const informers = [];
    for (const each of [resource, ...others]) informers.push(await this.#informer(each, parts));
    const { keyPrefix, logTriggers } = this.#config;
    const queue = new BullMqWorkQueue({
      redis,
      keyPrefix,
      clusterId,
      name,
      concurrency,
      timeoutMs: timeoutSeconds * 1000,
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics,
    });
    const controller = new Controller({
      description,
      resource,
      informers,
      queue,
      endpoint: new Endpoint(url, parts.keys, concurrency),
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics,
      logTriggers,
    });
    // Known to the relay before the first wakeup; paused until recovery has looked at its queue and views.
    queue.pause();
    controller.addHandlers();
    this.#queues.set(name, queue);
    await controller.waitForSync(this.#stop.signal);
    await controller.start();
    this.#dashboard.add(queue.bullmq);
    this.#controllers.set(name, controller);
    this.#logger.info({ controller: name, url, for: formatKind(resource) }, 'controller started');
    await this.#recovery?.check(this.#stop.signal);
  }

  /** Queues of all controllers that may be woken, those still being started included. */
  readonly #queues = new Map<string, BullMqWorkQueue>();

  /** Each kind once; that of `for` first. */
  async #resources(
    description: { for: GroupVersionKind; owns: readonly GroupVersionKind[]; reads: readonly GroupVersionKind[] },
    client: ApiClient,
  ): Promise<Resource[]> {
    const kinds = new Map(
      [description.for, ...description.owns, ...description.reads].map((gvk) => [formatKind(gvk), gvk]),
    );
    const resources = [];
    for (const gvk of kinds.values()) resources.push(await discoverResource(client, gvk));
    return resources;
  }

  /** The informer of a resource, started when the first controller needs it. */
  async #informer(resource: Resource, { redis, client, clusterId }: Parts): Promise<Informer> {
    const name = formatKind(resource);
    const known = this.#informers.get(name);
    if (known) return known;
    const { keyPrefix } = this.#config;
    const prefix = viewPrefix({ keyPrefix, clusterId, resource, settings: VIEW_SETTINGS });
    const informer = new Informer({
      client,
      resource,
      view: new View(redis, resource, prefix),
      enqueue: (wakeups) => this.#enqueue(wakeups),
      term: this.#term,
      clock: this.#clock,
      logger: this.#logger,
      metrics: this.#metrics,
      onForeignTerm: (view) => void this.#checkTerm(view),
    });
    this.#informers.set(name, informer);
    await informer.start();
    return informer;
  }

  async #enqueue(wakeups: readonly Wakeup[]): Promise<void> {
    const byController = Map.groupBy(wakeups, ({ controller }) => controller);
    await Promise.all(
      // A controller that this gateway does not run has nothing to be woken; if it comes back, it gets all its keys.
      [...byController].map(([controller, keys]) => this.#queues.get(controller)?.add(keys)),
    );
  }

  /** The term is gone with the rest of Redis' data, which recovery mends, or another gateway has written its own. */
  async #checkTerm(view: View): Promise<void> {
    const term = await view.term();
    if (term === undefined || term === this.#term) return;
    this.#fatal(new UserError('Another gateway has taken over this cluster: this one stops.'));
  }

  #troubleWithInformers(): string | undefined {
    const waiting = [...this.#informers.values()].filter((informer) => !informer.synced);
    return waiting.length === 0 ? undefined : `not complete: ${waiting.map(({ name }) => name).join(', ')}`;
  }

  #troubleWithFunctions(): string | undefined {
    const [first] = this.#awaited;
    return first && `${first[0]}: ${first[1]}`;
  }

  /** Depths are asked for when somebody looks, not counted along. */
  async #renderMetrics(): Promise<string> {
    for (const [name, queue] of this.#queues) {
      const { waiting, running } = await queue.counts();
      this.#metrics.set('workqueue_depth', { name }, waiting);
      this.#metrics.set('controller_runtime_active_workers', { controller: name }, running);
    }
    return this.#metrics.registry.metrics();
  }
}

interface Parts {
  readonly redis: Redis;
  readonly client: ApiClient;
  readonly clusterId: string;
  readonly keys: readonly SigningKey[];
}
