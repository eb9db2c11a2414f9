import { Redis } from 'ioredis';
import {
  formatKind,
  formatObjectKey,
  type KubernetesObject,
  matchesLabels,
  newestResourceVersion,
  type ObjectKey,
  type Resource,
  type ResourceVersion,
} from '../../core/index.ts';
import {
  type CacheLocation,
  controllerIndex,
  declaredIndex,
  indexEntriesOf,
  type IndexSpec,
  namespaceIndex,
  orphanIndex,
  type ViewKeys,
  viewKeys,
} from '../../contract/index.ts';
import { decodeObject } from '../../contract/node/codec.ts';
import type { CacheReader, ListOptions, ListResult } from '../cache-reader.ts';

/**
 * Reads the cache straight from Redis, for functions close to it: the option `cache` of `createFunctionApp`. One
 * connection for the life of the process, opened at the first read. A read fails when Redis does not answer within five
 * seconds, and the key is retried.
 *
 * @param url `redis://host:port`, or a function that gives it at the first read.
 */
export function redisCache(url: string | (() => string)): (location: CacheLocation) => CacheReader {
  let redis: Redis | undefined;
  const connection = (): Redis => {
    if (redis) return redis;
    redis = new Redis(typeof url === 'string' ? url : url(), { commandTimeout: 5000, maxRetriesPerRequest: 2 });
    // Each failed command rejects on its own; without a listener ioredis prints the failed attempts too.
    redis.on('error', () => {});
    return redis;
  };
  return (location) => new RedisReader(connection(), location);
}

/** The `CacheReader` over one trigger's views. */
export class RedisReader implements CacheReader {
  readonly #redis: Redis;
  readonly #location: CacheLocation;

  constructor(redis: Redis, location: CacheLocation) {
    this.#redis = redis;
    this.#location = location;
  }

  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    const [keys] = this.#views(resource, key.namespace);
    // A namespace that is not cached has no objects, as far as this controller is concerned.
    if (!keys) return undefined;
    const [, text] = await Promise.all([
      this.#state(resource, keys),
      this.#redis.hget(keys.objects, formatObjectKey(key)),
    ]);
    return text === null ? undefined : (decodeObject(text) as T);
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    const views = this.#views(resource, options.namespace ?? options.orphansIn);
    const lists = await Promise.all(views.map((keys) => this.#listView(resource, keys, options)));
    const versions = lists.map(({ version }) => version);
    return {
      items: lists.flatMap(({ items }) => items),
      // The oldest of them is what all are at least as new as.
      version: versions.reduce((a, b) => (newestResourceVersion(a, b) === a ? b : a), versions[0] ?? '0'),
    };
  }

  async #listView<T extends KubernetesObject>(
    resource: Resource<T>,
    keys: ViewKeys,
    options: ListOptions,
  ): Promise<ListResult<T>> {
    const wanted = indexesOf(options);
    const declared = options.index ? [options.index.spec] : [];
    const { version, complete } = await this.#state(resource, keys);
    // A declared index that is still being filled is no help in finding keys; the objects are looked at either way.
    const usable = options.index && !complete.includes(options.index.spec) ? wanted.slice(0, -1) : wanted;
    // Two trips: the keys by index, then the objects. (One Lua script for both was slower, measured.)
    const names = await this.#names(keys, usable);
    const texts = names.length > 0 ? await this.#redis.hmget(keys.objects, ...names) : [];
    const items: T[] = [];
    for (const text of texts) {
      // Deleted between the trips.
      if (text === null) continue;
      const object = decodeObject(text) as T;
      // Changed between the trips, so that it left the index.
      const entries = indexEntriesOf(object, declared);
      if (!wanted.every((index) => entries.includes(index))) continue;
      if (options.labelSelector && !matchesLabels(options.labelSelector, object.metadata.labels)) continue;
      items.push(object);
    }
    return { items, version };
  }

  #names(keys: ViewKeys, indexes: readonly string[]): Promise<string[]> {
    const sets = indexes.map((index) => keys.indexPrefix + index);
    const [first] = sets;
    if (first === undefined) return this.#redis.hkeys(keys.objects);
    return sets.length === 1 ? this.#redis.smembers(first) : this.#redis.sinter(...sets);
  }

  async #state(resource: Resource, keys: ViewKeys): Promise<{ version: ResourceVersion; complete: IndexSpec[] }> {
    const [version, indexes] = await this.#redis.hmget(keys.view, 'version', 'indexes');
    if (!version) throw new Error(`the cache of ${formatKind(resource)} is not complete yet`);
    return { version, complete: indexes ? (JSON.parse(indexes) as IndexSpec[]) : [] };
  }

  /** The views of a kind, or the one that can hold a namespace's objects. */
  #views(resource: Resource, namespace: string | undefined): ViewKeys[] {
    const views = this.#location.views[formatKind(resource)];
    if (views === undefined) {
      throw new TypeError(`${formatKind(resource)} is not cached for this controller: name it in for, owns or reads`);
    }
    const holds = (view: { namespace?: string }): boolean =>
      namespace === undefined || view.namespace === undefined || view.namespace === namespace;
    return views.filter(holds).map(({ prefix }) => viewKeys(prefix));
  }
}

/** The index entries that an object of the list carries; that of a declared index last. */
function indexesOf({ namespace, controlledBy, orphansIn, index }: ListOptions): string[] {
  const indexes = [];
  if (namespace !== undefined) indexes.push(namespaceIndex(namespace));
  if (controlledBy !== undefined) indexes.push(controllerIndex(controlledBy));
  if (orphansIn !== undefined) indexes.push(orphanIndex(orphansIn));
  if (index !== undefined) indexes.push(declaredIndex(index.spec, index.value));
  return indexes;
}
