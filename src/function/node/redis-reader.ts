import { Redis } from 'ioredis';
import {
  formatKind,
  formatObjectKey,
  type KubernetesObject,
  matchesLabels,
  type ObjectKey,
  type Resource,
  type ResourceVersion,
} from '../../core/index.ts';
import {
  type CacheLocation,
  controllerIndex,
  indexEntriesOf,
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
    const keys = this.#keys(resource);
    const [, text] = await Promise.all([
      this.#version(resource, keys),
      this.#redis.hget(keys.objects, formatObjectKey(key)),
    ]);
    return text === null ? undefined : (decodeObject(text) as T);
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    const keys = this.#keys(resource);
    const indexes = indexesOf(options);
    // Two trips: the keys by index, then the objects. (One Lua script for both was slower, measured.)
    const [version, names] = await Promise.all([this.#version(resource, keys), this.#names(keys, indexes)]);
    const texts = names.length > 0 ? await this.#redis.hmget(keys.objects, ...names) : [];
    const items: T[] = [];
    for (const text of texts) {
      // Deleted between the trips.
      if (text === null) continue;
      const object = decodeObject(text) as T;
      // Changed between the trips, so that it left the index.
      const entries = indexEntriesOf(object);
      if (!indexes.every((index) => entries.includes(index))) continue;
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

  async #version(resource: Resource, keys: ViewKeys): Promise<ResourceVersion> {
    const version = await this.#redis.hget(keys.view, 'version');
    if (version === null) throw new Error(`the cache of ${formatKind(resource)} is not complete yet`);
    return version;
  }

  #keys(resource: Resource): ViewKeys {
    const prefix = this.#location.views[formatKind(resource)];
    if (prefix === undefined) {
      throw new TypeError(`${formatKind(resource)} is not cached for this controller: name it in for, owns or reads`);
    }
    return viewKeys(prefix);
  }
}

function indexesOf({ namespace, controlledBy, orphansIn }: ListOptions): string[] {
  const indexes = [];
  if (namespace !== undefined) indexes.push(namespaceIndex(namespace));
  if (controlledBy !== undefined) indexes.push(controllerIndex(controlledBy));
  if (orphansIn !== undefined) indexes.push(orphanIndex(orphansIn));
  return indexes;
}
