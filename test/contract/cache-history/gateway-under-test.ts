import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import {
  type Checkpoint,
  type CheckpointName,
  type Clock,
  formatKind,
  type Logger,
  messageOf,
  silentLogger,
  silentMetrics,
  systemClock,
} from '../../../src/core/index.ts';
import { viewPrefix } from '../../../src/contract/cache-layout.ts';
import { ApiClient } from '../../../src/ground/apiserver/api-client.ts';
import { type Credentials, loadCredentials } from '../../../src/ground/apiserver/credentials.ts';
import { Informer } from '../../../src/gateway/informer/cache/informer.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import type { Enqueue } from '../../../src/gateway/informer/cache/relay.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { GatewayWriter } from '../../../src/gateway/informer/cache/gateway-writer.ts';
import { RunningController } from '../../../src/gateway/controller/running/controller.ts';
import { CacheAccess } from '../../../src/gateway/controller/access/cache-access.ts';
import type { Endpoint } from '../../../src/gateway/controller/endpoint/endpoint.ts';
import { GarbageCollector } from '../../../src/gateway/recovery/garbage-collection.ts';
import { Recovery } from '../../../src/gateway/recovery/recovery.ts';
import { description, kinds } from './kinds.ts';
import type { RecordingQueue } from './recording-queue.ts';
import { ownBounds } from '../../harness/own-bounds.ts';

/** Every wait of the gateway is over soon. */
const hastyClock: Clock = {
  now: () => systemClock.now(),
  wallNow: () => systemClock.wallNow(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const timer = setTimeout(resolve, Math.min(ms, 1 + ms / 200, 8));
      signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    }),
};

/** Makes the view of a gateway; a mutation makes a wrong one. */
export type MakeView = (parts: {
  redis: Redis;
  resource: (typeof kinds)[number];
  prefix: string;
  checkpoint: Checkpoint;
  viewAt: (prefix: string) => View | undefined;
  enqueue: Enqueue;
}) => View;

export interface Setup {
  readonly redisUrl: string;
  readonly kubeconfig: string;
  readonly keyPrefix: string;
  readonly queue: RecordingQueue;
  /** The key with what Redis says it is, in the place of INFO. */
  readonly runIdKey: string;
  readonly checkpoint: Checkpoint;
  readonly makeView?: MakeView;
  readonly logger?: Logger;
}

export function prefixOf(keyPrefix: string, resource: (typeof kinds)[number]): string {
  return viewPrefix({ keyPrefix, clusterId: 'model', resource, settings: 'all' });
}

/** All of a gateway between the apiserver and its queue, wired as `Gateway` wires it, and able to die on the spot. */
export class GatewayUnderTest {
  readonly informers: readonly Informer[];
  readonly controller: RunningController;
  readonly recovery: Recovery;
  readonly #writer = new GatewayWriter({ logger: silentLogger, onReplaced: () => this.kill() });
  alive = true;
  /** Handlers that failed, and wakeups that could not be delivered: in these histories there are none. */
  readonly failures: string[] = [];
  /** The queue and all that is durable has been looked at once. */
  ready = false;
  readonly #setup: Setup;
  readonly #redis: Redis;
  readonly #credentials: Credentials;
  readonly #stop = new AbortController();
  readonly #died = Promise.withResolvers<void>();
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(setup: Setup, redis: Redis, credentials: Credentials) {
    this.#setup = setup;
    this.#redis = redis;
    this.#credentials = credentials;
    const { keyPrefix, queue, makeView } = setup;
    const checkpoint: Checkpoint = (point) => this.#reach(point);
    const views: View[] = [];
    const viewAt = (prefix: string): View | undefined => views.find((view) => view.location.prefix === prefix);
    const enqueue: Enqueue = async (wakeups) => {
      await queue.add(wakeups, () => this.alive);
    };
    const runtime = { clock: hastyClock, logger: setup.logger ?? silentLogger, metrics: silentMetrics, checkpoint };
    const failed = (error: unknown): void => void this.failures.push(messageOf(error));
    const client = new ApiClient(credentials);
    this.#writer.begin(new AbortController().signal);
    this.informers = kinds.map((resource) => {
      const prefix = prefixOf(keyPrefix, resource);
      const view =
        makeView?.({ redis, resource, prefix, checkpoint, viewAt, enqueue }) ?? new View(redis, resource, { prefix });
      views.push(view);
      return new Informer({
        client,
        resource,
        settings: {},
        view,
        viewAt,
        writer: this.#writer,
        listeners: {
          enqueue,
          onHandlerError: (_, error) => failed(error),
          lookupBudget: () => this.controller.lookupBudget,
          onUndeliverable: (_, error) => failed(error),
          onViewChanged: () => {},
        },
        runtime,
      });
    });
    this.controller = new RunningController({
      spec: { id: description.name, origin: 'configured', declaration: 'd', description, keys: [] },
      sources: kinds.map((resource, at) => ({ resource, informers: this.informers.slice(at, at + 1) })),
      queue: queue.forGateway(() => this.alive),
      target: {
        // Nothing is dispatched here: the recording queue looks for itself what a run would have seen.
        endpoint: {} as Endpoint,
        cacheAccess: new CacheAccess({
          views,
          api: undefined,
          clock: hastyClock,
        }),
      },
      bounds: ownBounds(),
      settings: { logTriggers: false, resyncMs: 36_000_000, startWindowMs: 60_000 },
      runtime,
      onChanged: () => {},
    });
    const location = redisLocation(redis, keyPrefix, 'model');
    this.recovery = new Recovery({
      runtime,
      location,
      garbage: new GarbageCollector({ location, runtime, liveOwner: async () => undefined }),
      parts: {
        // Its only view is in no set.
        informers: { all: () => [...this.informers], record: async () => {} },
        controllers: () => (this.ready ? [this.controller] : []),
      },
      writer: this.#writer,
      // As if no run was in flight.
      lease: { take: async () => ({ beforeMs: 0, others: [] }), release: async () => {}, forget: async () => {} },
      thisGateway: { id: 'model', runs: { inFlight: () => [], beginUntil: () => {} } },
      onWaitChanged: () => {},
    });
  }

  static async start(setup: Setup): Promise<GatewayUnderTest> {
    const redis = await connectRedis(setup.redisUrl);
    // ioredis asks itself, with a callback, whether the server is ready; only recovery's question is answered here.
    const info = redis.info.bind(redis) as (...all: unknown[]) => unknown;
    Object.assign(redis, {
      info: (...all: unknown[]) => (all[0] === 'server' ? redis.get(setup.runIdKey) : info(...all)),
    });
    for (const name of ['apply', 'write', 'reclaim']) {
      const lua = readFileSync(new URL(`../../../src/gateway/informer/cache/lua/${name}.lua`, import.meta.url), 'utf8');
      const asked = lua.replace("redis.call('INFO', 'server')", `redis.call('GET', '${setup.runIdKey}')`);
      if (asked === lua) throw new Error(`${name}.lua does not ask which process it runs in`);
      redis.defineCommand(`levelhook_${name}`, { lua: asked });
    }
    const gateway = new GatewayUnderTest(setup, redis, await loadCredentials(setup.kubeconfig));
    gateway.#ended = gateway.#run().catch(() => {});
    return gateway;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** SIGKILL: connections are gone, and nothing that is under way has an effect outside. */
  kill(): void {
    if (!this.alive) return;
    this.alive = false;
    this.#died.resolve();
    this.#stop.abort();
    this.#redis.disconnect();
    void this.#credentials.close();
    for (const informer of this.informers) informer.stop().catch(() => {});
  }

  /** The connection to Redis breaks, and is made again. */
  loseConnection(): void {
    // `disconnect(true)` ends it politely, which a crash does not.
    (this.#redis as unknown as { stream: Socket }).stream.destroy();
  }

  /** SIGTERM. */
  async stop(): Promise<void> {
    if (!this.alive) return;
    this.#stop.abort();
    const stopped = Promise.all([...this.informers.map((informer) => informer.stop()), this.#ended]);
    // It may die on the way.
    await Promise.race([stopped, this.#died.promise]);
    this.kill();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    // Before the first event: a change that is applied without handlers wakes no key.
    await Promise.all(this.informers.map((informer) => informer.start()));
    await this.controller.addHandlers();
    const checking = this.recovery.run(signal);
    await this.controller.sources.waitForSync(signal);
    this.ready = true;
    await this.recovery.check(signal);
    await checking;
  }

  async #reach(point: CheckpointName): Promise<void> {
    // The dead do not go on.
    if (!this.alive) return new Promise(() => {});
    await this.#setup.checkpoint(point);
    if (!this.alive) return new Promise(() => {});
  }
}

export function describeViews(keyPrefix: string): { name: string; prefix: string }[] {
  return kinds.map((resource) => ({ name: formatKind(resource), prefix: prefixOf(keyPrefix, resource) }));
}
