import { expect } from 'vitest';
import {
  compareResourceVersions,
  type KubernetesObject,
  type Resource,
  resource,
  silentLogger,
  noCheckpoint,
  silentMetrics,
} from '../../../src/core/index.ts';
import { POSITION, decodeEntry, viewKeys } from '../../../src/contract/cache-layout.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import type { KeyWakeup } from '../../../src/gateway/informer/cache/change.ts';
import type { Redis } from '../../../src/ground/redis/redis.ts';
import { unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import { Relay } from '../../../src/gateway/informer/cache/relay.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { enqueueMapped, enqueueObject, EventSource } from '../../../src/gateway/controller/handlers/event-handler.ts';
import { KeyScope } from '../../../src/gateway/controller/handlers/key-scope.ts';
import { ownerMapper } from '../../../src/gateway/controller/handlers/mapper.ts';
import type { WatchEvent } from '../../../src/gateway/informer/reflector/watch-event.ts';
import { applierOf } from '../../harness/applier.ts';
import { storedTexts } from '../../harness/stored-objects.ts';
import { createView } from '../../harness/views.ts';

export const pods = resource('v1', 'Pod');
export const replicaSets = resource('apps/v1', 'ReplicaSet');

export const keyOfPod = ({ metadata }: KubernetesObject): string => `${metadata.namespace}/${metadata.name}`;
const newer = (a: KubernetesObject, b: KubernetesObject): boolean =>
  compareResourceVersions(a.metadata.resourceVersion, b.metadata.resourceVersion) > 0;

type ServerEvent = Extract<WatchEvent, { kind: 'changed' | 'deleted' }>;

/** One resource of an apiserver: objects, and the history of all changes that a watch could deliver. */
export class PodServer {
  #history: ServerEvent[] = [];
  #version = 1;
  #uids = 0;

  get version(): number {
    return this.#version;
  }

  /** Writes a pod: made when there is none, else changed. Only `undefined` leaves a field out. */
  write(key: string, rest: Record<string, unknown>): void {
    const [namespace = '', name = ''] = key.split('/');
    const uid = this.objectsAt(this.#version).get(key)?.metadata.uid ?? `uid-${(this.#uids += 1)}`;
    this.#version += 1;
    const metadata = { name, namespace, uid, resourceVersion: String(this.#version), ...rest };
    this.#history.push({ kind: 'changed', object: { apiVersion: 'v1', kind: 'Pod', metadata } });
  }

  delete(key: string): void {
    const object = this.objectsAt(this.#version).get(key);
    if (!object) return;
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    this.#history.push({ kind: 'deleted', object: { ...object, metadata } });
  }

  objectsAt(version: number): Map<string, KubernetesObject> {
    const objects = new Map<string, KubernetesObject>();
    for (const { kind, object } of this.#history) {
      if (Number(object.metadata.resourceVersion) > version) break;
      if (kind === 'changed') objects.set(keyOfPod(object), object);
      else objects.delete(keyOfPod(object));
    }
    return objects;
  }

  /** What a watch from `version` delivers. */
  since(version: number): ServerEvent[] {
    return this.#history.filter(({ object }) => Number(object.metadata.resourceVersion) > version);
  }

  /** etcd is restored from an older state: later versions come again, for other contents. */
  restore(version: number): void {
    this.#history = this.#history.filter(({ object }) => Number(object.metadata.resourceVersion) <= version);
    this.#version = version;
  }
}

/** What the cache must hold and whom it must wake, worked out object by object, without Redis. */
export class CacheModel {
  readonly objects = new Map<string, KubernetesObject>();
  version: string | undefined;
  #list: { named: Set<string>; back: boolean; silent: boolean } | undefined;
  #woken = new Set<string>();

  /** @returns the keys that these events wake, as `controller key`. */
  apply(events: readonly WatchEvent[]): Set<string> {
    this.#woken = new Set();
    for (const event of events) this.#one(event);
    return this.#woken;
  }

  /** The process is gone, and with it what it knew of a list. */
  crash(): void {
    this.#list = undefined;
  }

  #one(event: WatchEvent): void {
    switch (event.kind) {
      case 'init':
        this.#list = { named: new Set(), back: event.rewound, silent: this.version === undefined };
        return;
      case 'init-done':
        for (const [key, object] of this.objects) {
          if (this.#list?.named.has(key)) continue;
          if (!this.#list?.back && Number(object.metadata.resourceVersion) > Number(event.version)) continue;
          this.objects.delete(key);
          this.#wake(object, true);
        }
        this.version = event.version;
        this.#list = undefined;
        return;
      case 'gone':
        this.#list = undefined;
        for (const object of this.objects.values()) this.#wake(object, true);
        this.objects.clear();
        // Below every version of the server: the next list is a diff.
        this.version ??= '1';
        return;
      case 'unserved':
      case 'back':
        return;
      case 'bookmark':
        this.version = event.version;
        return;
      case 'deleted':
        this.#deleted(event.object);
        return;
      case 'changed':
      case 'listed':
        this.#changed(event.object);
    }
  }

  #changed(object: KubernetesObject): void {
    const key = keyOfPod(object);
    const old = this.objects.get(key);
    this.#list?.named.add(key);
    if (!this.#list) this.version = object.metadata.resourceVersion;
    if (old && (this.#list?.back ? JSON.stringify(old) === JSON.stringify(object) : !newer(object, old))) return;
    this.objects.set(key, object);
    this.#wake(object);
    // Another one of the same name: the old one is gone, and that is news in a list that tells of no others, too.
    if (old) this.#wake(old, old.metadata.uid !== object.metadata.uid);
  }

  #deleted(object: KubernetesObject): void {
    const key = keyOfPod(object);
    const old = this.objects.get(key);
    this.#list?.named.delete(key);
    if (!this.#list) this.version = object.metadata.resourceVersion;
    if (old && !this.#list?.back && newer(old, object)) return;
    this.objects.delete(key);
    this.#wake(object, true);
  }

  #wake(object: KubernetesObject, deleted = false): void {
    if (this.#list?.silent && !deleted) return;
    this.#woken.add(`pods ${keyOfPod(object)}`);
    const owner = object.metadata.ownerReferences?.find(({ controller }) => controller);
    if (owner?.kind === 'ReplicaSet') this.#woken.add(`replicasets ${object.metadata.namespace}/${owner.name}`);
  }
}

/**
 * A view in Redis, its applier and its relay, and beside them the model. Every step compares the two. A later test may
 * stop the applier or the relay wherever it likes (`crash`) and go on from what Redis holds.
 */
export class CacheWorld {
  readonly view: View;
  readonly model = new CacheModel();
  readonly #redis: Redis;
  readonly #keys: ReturnType<typeof viewKeys>;
  #applier: Applier;
  #seenOfOutbox = '-';
  /** Every wakeup that the outbox ever held, and every one that reached the queues, as `controller key`. */
  readonly written: string[] = [];
  readonly queued: string[] = [];

  constructor(redis: Redis) {
    this.#redis = redis;
    this.view = createView(redis, pods);
    this.#keys = viewKeys(this.view.location.prefix);
    this.#applier = this.#newApplier();
  }

  async start(): Promise<this> {
    await this.view.writer.claim('writer');
    return this;
  }

  #newApplier(): Applier {
    const source = new EventSource(pods);
    // Any view: keys of one are wherever it holds their namespace.
    const scopeOf = (resource: Resource): KeyScope => new KeyScope(resource, {}, [this.view]);
    return applierOf(this.view, {
      pods: enqueueObject('pods', source, scopeOf(pods)),
      replicasets: enqueueMapped('replicasets', source, ownerMapper('controller', scopeOf(replicaSets))),
    });
  }

  /** The process is gone: its successor goes on from what Redis holds. */
  crash(): void {
    this.#applier = this.#newApplier();
    this.model.crash();
  }

  async apply(events: readonly WatchEvent[]): Promise<void> {
    await this.#applier.apply(events);
    const expected = this.model.apply(events);
    const woken = await this.#newInOutbox();
    expect(new Set(woken)).toEqual(expected);
    this.written.push(...woken);
    await this.compare();
  }

  /** @param crash the process dies when the queues have the wakeups and the outbox still has them too. */
  async relay(crash = false): Promise<void> {
    const enqueue = async (wakeups: readonly KeyWakeup[]): Promise<void> => {
      this.queued.push(...wakeups.map(({ controller, key }) => `${controller} ${key}`));
      if (crash) throw new Error('the process died here');
    };
    const before = await this.#redis.xlen(this.#keys.outbox);
    const viewAt = () => this.view;
    const onUndeliverable = (_: string, error: unknown): never => {
      throw error;
    };
    const lookupBudget = () => unlimitedLookups;
    const quiet = { logger: silentLogger, metrics: silentMetrics, checkpoint: noCheckpoint };
    await new Relay({ view: this.view, viewAt, enqueue, lookupBudget, onUndeliverable, ...quiet }).drained();
    expect(await this.#redis.xlen(this.#keys.outbox)).toBe(crash ? before : 0);
  }

  /** Redis against the model: object by object, index by index. */
  async compare(): Promise<void> {
    const { view, objects, entries, order } = this.#keys;
    const [hash, texts, lines, keys] = await Promise.all([
      this.#redis.hgetall(view),
      storedTexts(this.#redis, objects),
      this.#redis.hgetall(entries),
      this.#redis.zrange(order, '0', '-1'),
    ]);
    const model = Object.fromEntries(this.model.objects);
    expect(Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, JSON.parse(text) as unknown]))).toEqual(
      model,
    );
    expect(keys).toEqual(Object.keys(model).toSorted());
    expect(hash['version']).toBe(this.model.version);
    const mayBeRead = hash['version'] !== undefined && hash['rewound'] !== '1';
    expect(await this.#redis.hget(objects, POSITION)).toBe(mayBeRead ? hash['position'] : null);
    for (const [key, { metadata }] of this.model.objects) {
      expect(decodeEntry(lines[key] ?? ''), key).toMatchObject({
        resourceVersion: metadata.resourceVersion,
        uid: metadata.uid,
        terminating: metadata.deletionTimestamp !== undefined,
      });
    }
    expect(Object.keys(lines).toSorted()).toEqual(keys);
    expect(await this.#indexes()).toEqual(this.#expectedIndexes());
  }

  /** Everything that Redis holds of the view. */
  async dump(): Promise<unknown> {
    const { view, objects, entries, order, outbox } = this.#keys;
    return Promise.all([
      this.#redis.hgetall(view),
      this.#redis.hgetall(objects),
      this.#redis.hgetall(entries),
      this.#redis.zrange(order, '0', '-1'),
      this.#redis.xrange(outbox, '-', '+'),
      this.#indexes(),
    ]);
  }

  async close(): Promise<void> {
    for await (const keys of this.#scan()) if (keys.length > 0) await this.#redis.unlink(...keys);
  }

  async #indexes(): Promise<Record<string, string[]>> {
    const found: Record<string, string[]> = {};
    for await (const keys of this.#scan()) {
      for (const key of keys) {
        if (!key.startsWith(this.#keys.indexPrefix)) continue;
        found[key.slice(this.#keys.indexPrefix.length)] = (await this.#redis.smembers(key)).toSorted();
      }
    }
    return found;
  }

  /** By namespace, by controller, and in each namespace those without one. */
  #expectedIndexes(): Record<string, string[]> {
    const sets: Record<string, string[]> = {};
    for (const [key, { metadata }] of [...this.model.objects].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      const owner = metadata.ownerReferences?.find(({ controller }) => controller);
      const names = [
        `namespace:${metadata.namespace}`,
        owner ? `controller:${owner.uid}` : `orphan:${metadata.namespace}`,
      ];
      for (const name of names) (sets[name] ??= []).push(key);
    }
    return sets;
  }

  async #newInOutbox(): Promise<string[]> {
    const found = await this.#redis.xrange(this.#keys.outbox, this.#seenOfOutbox, '+');
    const last = found.at(-1)?.[0];
    if (last) this.#seenOfOutbox = `(${last}`;
    return found.map(([, fields]) => `${fields[1]} ${fields[3]}`);
  }

  #scan(): AsyncIterable<string[]> {
    return this.#redis.scanStream({ match: `${this.view.location.prefix}:*`, count: 5000 }) as AsyncIterable<string[]>;
  }
}
