import type { Redis } from 'ioredis';
import {
  formatKind,
  formatObjectKey,
  type KubernetesObject,
  type ObjectKey,
  parseFieldSelector,
  requirementsOf,
  type Resource,
  systemClock,
} from '../../core/index.ts';
import type { CacheLocation, Selection } from '../../contract/index.ts';
import { viewKeys } from '../../contract/cache-layout.ts';
import { observedAtMs } from '../../contract/observed.ts';
import { checkFields } from '../../contract/selection.ts';
import { type ReadableState, ViewReader } from '../../contract/node/view-reader.ts';
import {
  type CacheReader,
  type KeptOut,
  type ListOptions,
  type ListResult,
  type OpenCache,
  SYNC_WAIT_MS,
} from '../cache-reader.ts';
import { canExist, isEncryptedKind, joinedLists, viewsOf } from '../cache-views.ts';
import { HttpReader } from '../http-reader.ts';
import { MergedGets } from './merged-gets.ts';
import { ReaderConnection } from './reader-connection.ts';
import { undiciFetch } from './undici-fetch.ts';

export interface RedisReaderOptions {
  /** How long a read waits for a cache that is being filled for the first time. Default 5000. */
  readonly syncWaitMs?: number;
  /** Ends the waiting. Default: never. */
  readonly signal?: AbortSignal;
  /** The function's steady time when the trigger came, in milliseconds. Default: when the reader was made. */
  readonly startedMs?: number;
}

export interface RedisCacheOptions {
  /**
   * The function's signing secrets, as `createFunctionApp` has them. Default: none, and Redis is read as whom the URL
   * says.
   */
  readonly secrets?: readonly string[];
}

/**
 * Reads the cache straight from Redis, for functions close to it: the option `cache` of `createFunctionApp`. One
 * connection for the life of the process, opened at the first read. A read fails when Redis does not answer within five
 * seconds, and the key is retried. Kinds that are encrypted in Redis (Secrets) are read through the cache API, with the
 * token of the trigger.
 *
 * With `secrets` the URL needs no password if the gateway's settings let it make Redis users for functions:
 * the reader logs in as the controller's user, which may read the controller's views and nothing else. Credentials in
 * the URL take precedence.
 *
 * @param url `redis://host:port`, `rediss://host:port` or the path of a socket, or a function that gives it at the
 *   first read. TLS takes further authorities from `NODE_EXTRA_CA_CERTS`. Sentinels and clusters are refused: read
 *   through the cache API there.
 */
export function redisCache(url: string | (() => string), options: RedisCacheOptions = {}): OpenCache {
  const connection = new ReaderConnection(url, options);
  return (location, run) => {
    const startedMs = systemClock.now();
    // The signal of the run is made when something waits for it.
    const options = {
      startedMs,
      fetch: undiciFetch,
      get signal() {
        return run.signal;
      },
    };
    const readerOf = async (resource: Resource): Promise<CacheReader> => {
      if (isEncryptedKind(location, resource)) return new HttpReader(location, options);
      return new RedisReader(await connection.as(location.redisUser, run), location, options);
    };
    return {
      get: async (resource, key) => (await readerOf(resource)).get(resource, key),
      list: async (resource, options) => (await readerOf(resource)).list(resource, options),
      secondsUnchanged: async (resource, key, field) =>
        (await readerOf(resource)).secondsUnchanged(resource, key, field),
    };
  };
}

/**
 * The `CacheReader` over one trigger's views. Two trips for a list by index, one command for an object; gets of one
 * turn of the event loop share it. It has no keys: of kinds that are encrypted it reads nothing, and throws a
 * TypeError.
 */
export class RedisReader implements CacheReader {
  readonly #redis: Redis;
  readonly #location: CacheLocation;
  readonly #options: RedisReaderOptions;
  readonly #startedMs: number;

  constructor(redis: Redis, location: CacheLocation, options: RedisReaderOptions = {}) {
    this.#redis = redis;
    this.#location = location;
    this.#options = options;
    this.#startedMs = options.startedMs ?? systemClock.now();
  }

  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    // A namespace that is not cached has no objects, as far as this controller is concerned.
    const [location] = viewsOf(this.#location, resource, key.namespace);
    if (!location || !canExist(resource, key)) return undefined;
    const view = new ViewReader(this.#redis, location.prefix);
    const name = formatObjectKey(key);
    const { isComplete, stored } = await MergedGets.of(this.#redis).get(location.prefix, name);
    if (isComplete) return view.found(name, stored)?.decode() as T | undefined;
    await this.#synced(resource, view);
    return (await view.get(name))?.decode() as T | undefined;
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    const selection = selectionOf(resource, options);
    const views = viewsOf(this.#location, resource, options.namespace ?? options.orphansIn);
    const lists = await Promise.all(
      views.map(async ({ prefix }) => {
        const view = new ViewReader(this.#redis, prefix);
        const state = (await view.state(selection)) ?? (await this.#synced(resource, view, selection));
        const items: T[] = [];
        const keptOut: KeptOut[] = [];
        const onKeptOut = ({ key, reason }: KeptOut): void => void keptOut.push({ key, reason });
        for await (const batch of view.select(selection, { state, onKeptOut })) {
          items.push(...batch.map((each) => each.decode() as T));
        }
        return { items, version: state.version, keptOut };
      }),
    );
    return joinedLists(lists);
  }

  async secondsUnchanged(resource: Resource, key: ObjectKey, field: string): Promise<number | undefined> {
    const [view] = viewsOf(this.#location, resource, key.namespace);
    const { now } = this.#location;
    if (!view || now === undefined || !canExist(resource, key)) return undefined;
    const stored = await this.#redis.hget(viewKeys(view.prefix).observedPrefix + field, formatObjectKey(key));
    if (stored === null) return undefined;
    const nowMs = now + systemClock.now() - this.#startedMs;
    return Math.max(0, nowMs - observedAtMs(stored)) / 1000;
  }

  async #synced(resource: Resource, view: ViewReader, selection?: Selection): Promise<ReadableState> {
    const { syncWaitMs = SYNC_WAIT_MS } = this.#options;
    const until = systemClock.now() + syncWaitMs;
    for (;;) {
      const state = await view.state(selection);
      if (state) return state;
      this.#options.signal?.throwIfAborted();
      if (systemClock.now() >= until) throw new Error(`the cache of ${formatKind(resource)} is not complete yet`);
      await systemClock.sleep(Math.min(POLL_MS, Math.max(1, until - systemClock.now())));
    }
  }
}

const POLL_MS = 50;

function selectionOf(resource: Resource, { labelSelector, fieldSelector, ...options }: ListOptions): Selection {
  const fields = parseFieldSelector(fieldSelector ?? '');
  checkFields(resource, fields);
  const labels = requirementsOf(labelSelector ?? '');
  return {
    ...options,
    ...(labels.length > 0 ? { labels } : {}),
    ...(fields.length > 0 ? { fields } : {}),
  };
}
