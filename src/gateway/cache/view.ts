import { randomUUID } from 'node:crypto';
import {
  compareResourceVersions,
  formatKind,
  isResourceVersion,
  type KubernetesObject,
  type Resource,
  type ResourceVersion,
} from '../../core/index.ts';
import {
  decodeEntry,
  encodeEntry,
  type IndexSpec,
  KEPT_OUT_INDEX,
  namespaceIndex,
  type ObjectEntry,
  type ViewKeys,
  viewKeys,
  type ViewLocation,
} from '../../contract/index.ts';
import { type Mark, ObjectCodec, ObjectKeptOutError, UnreadableObjectError } from '../../contract/node/codec.ts';
import { ViewReader } from '../../contract/node/view-reader.ts';
import type { Lookup, Wakeup } from './change.ts';
import { loadScript, type Redis, type Script, unlinkAll } from '../redis/redis.ts';
import { TimeSlice } from '../time-slice.ts';

/** Another gateway has written its ID into the view: this one must stop writing and see whether it still leads. */
export class ForeignWriterError extends Error {
  override readonly name = 'ForeignWriterError';
}

/** One operation of the apply script. */
export type ViewOperation =
  | { readonly kind: 'S'; readonly key: string; readonly entry: string; readonly object: string | Buffer }
  | { readonly kind: 'D'; readonly key: string; readonly version: ResourceVersion };

export interface ViewState {
  /** Up to which the view is complete; undefined until its first list is. */
  readonly version: ResourceVersion | undefined;
  /** Names this filling of the view. Another one means that everything in it may be new. */
  readonly incarnation: string | undefined;
  /** The Redis process that it was written on: another one may have lost the last writes. */
  readonly runId: string | undefined;
  /** A list of data that went back in time has begun and not ended: the view is a mixture of two pasts. */
  readonly rewound: boolean;
  /** Who may write to it; undefined when that is lost. */
  readonly writerId: string | undefined;
}

/** What one run of the apply script does. */
export interface Chunk {
  /** Where the view's version moves to; absent: it stays. */
  readonly version?: ResourceVersion;
  /** Versions cannot be compared with those stored. */
  readonly incomparable: boolean;
  /** Ends a list of data that went back in time: controllers that depend on the view start over. */
  readonly incarnation?: string;
  readonly operations: readonly ViewOperation[];
  /** Whose handlers have been asked about the operations. */
  readonly users: readonly string[];
  /** Those whose handlers have failed: they are counted as having missed something. */
  readonly failed: readonly string[];
  readonly wakeups: readonly Wakeup[];
}

/** An object as Redis has it. */
export interface EncodedObject {
  /** Its length, encrypted or compressed as it may be. */
  readonly bytes: number;
  readonly decode: () => KubernetesObject;
}

/** One entry of a view's outbox. */
export interface OutboxEntry {
  readonly id: string;
  readonly controller: string;
  /** Undefined when the entry cannot be read. */
  readonly wakeup: Wakeup | undefined;
}

function wakeupOf(entry: { controller: string; key: string; lookup: string; text: string }): Wakeup | undefined {
  const { controller, key, lookup, text } = entry;
  try {
    const reasons = JSON.parse(text) as Wakeup['reasons'];
    return lookup ? { controller, lookup: JSON.parse(lookup) as Lookup, reasons } : { controller, key, reasons };
  } catch {
    return undefined;
  }
}

/** The field of a view's HASH that counts how often a user was not there to hear of changes. */
function missedField(user: string): string {
  return `missed:${user}`;
}

/** One resource's part of the cache in Redis: reads and the writes of its one writer. All keys share a hash tag. */
export class View {
  readonly resource: Resource;
  readonly location: ViewLocation;
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #apply: Script;
  readonly #reindex: Script;
  readonly #reencrypt: Script;
  readonly #write: Script;
  readonly #codec: ObjectCodec;
  #onUnreadable: (error: UnreadableObjectError) => void = () => {};
  #writerId = '';

  /** @param codec Default: one that encrypts nothing. */
  constructor(
    redis: Redis,
    resource: Resource,
    location: ViewLocation,
    codec: ObjectCodec = new ObjectCodec({ prefix: location.prefix }),
  ) {
    this.#redis = redis;
    this.resource = resource;
    this.location = location;
    this.#codec = codec;
    const { prefix } = location;
    this.#keys = viewKeys(prefix);
    this.#apply = loadScript(redis, import.meta.url, 'apply');
    this.#reindex = loadScript(redis, import.meta.url, 'reindex');
    this.#reencrypt = loadScript(redis, import.meta.url, 'reencrypt');
    this.#write = loadScript(redis, import.meta.url, 'write');
  }

  /** The kind, and the namespace of a view that holds one. */
  get name(): string {
    const { namespace } = this.location;
    return namespace === undefined ? formatKind(this.resource) : `${formatKind(this.resource)} in ${namespace}`;
  }

  /** Whether its objects are encrypted in Redis. */
  get encrypted(): boolean {
    return this.#codec.encryptedBy !== undefined;
  }

  /** Reads it as functions and clients do. */
  get reader(): ViewReader {
    const { encryptedBy } = this.#codec;
    const decode = (key: string, stored: Buffer): Buffer => this.#decode(key, stored);
    return new ViewReader(this.#redis, this.location.prefix, { decode, encryptedBy });
  }

  /** Told of each object that could not be read, by whichever way. */
  onUnreadable(listener: (error: UnreadableObjectError) => void): void {
    this.#onUnreadable = listener;
  }

  /** Whether an object of this namespace would be here. */
  holds(namespace: string | undefined): boolean {
    return this.location.namespace === undefined || this.location.namespace === namespace;
  }

  /** Becomes the writer in place of any other: from now on the scripts refuse every other writer ID. */
  async take(writerId: string): Promise<void> {
    this.#writerId = writerId;
    await this.#redis.hset(this.#keys.view, 'writerId', writerId);
  }

  /**
   * Becomes the writer again where Redis has lost its ID.
   * @throws ForeignWriterError when another gateway has taken the view.
   */
  async retake(): Promise<void> {
    if ((await this.#redis.hsetnx(this.#keys.view, 'writerId', this.#writerId)) === 1) return;
    if ((await this.state()).writerId !== this.#writerId) throw this.#foreign();
  }

  #foreign(): ForeignWriterError {
    return new ForeignWriterError(`the view of ${this.name} was taken by another gateway`);
  }

  /** Sets fields of the view, as its writer. @throws ForeignWriterError */
  async #set(fields: Readonly<Record<string, string>>): Promise<void> {
    const answer = await this.#write([this.#keys.view], [this.#writerId, '', ...Object.entries(fields).flat()]);
    if (answer === -1) throw this.#foreign();
  }

  async state(): Promise<ViewState> {
    const fields = ['version', 'incarnation', 'runId', 'rewound', 'writerId'] as const;
    const [version, incarnation, runId, rewound, writerId] = await this.#redis.hmget(this.#keys.view, ...fields);
    return {
      version: isResourceVersion(version) ? version : undefined,
      // Without a version it was emptied after it was found in order: there is nothing that could have been filled.
      incarnation: isResourceVersion(version) ? (incarnation ?? undefined) : undefined,
      runId: runId ?? undefined,
      rewound: rewound === '1',
      writerId: writerId ?? undefined,
    };
  }

  /** Starts a new incarnation on the Redis process `runId`. @throws ForeignWriterError */
  async renew(runId: string): Promise<void> {
    await this.#set({ incarnation: randomUUID(), runId });
  }

  /**
   * From here to the end of the list the view is a mixture: should this gateway end before, the next lists it again.
   */
  async markRewound(): Promise<void> {
    await this.#set({ rewound: '1' });
  }

  /** How often `user` was not there to hear of changes, after it had been. */
  async missedBy(user: string): Promise<string> {
    return (await this.#redis.hget(this.#keys.view, missedField(user))) ?? '';
  }

  /** @throws ForeignWriterError */
  async noteMissed(user: string): Promise<void> {
    const answer = await this.#write([this.#keys.view], [this.#writerId, missedField(user)]);
    if (answer === -1) throw this.#foreign();
  }

  /** Entries of these keys, in their order; undefined where the view has none. */
  async entries(keys: readonly string[]): Promise<(ObjectEntry | undefined)[]> {
    if (keys.length === 0) return [];
    const texts = await this.#redis.hmget(this.#keys.entries, ...keys);
    return texts.map((text) => (text === null ? undefined : decodeEntry(text)));
  }

  /**
   * Objects of these keys, in their order; undefined where the view has none. Of one that is kept out, its metadata.
   */
  async objects(keys: readonly string[]): Promise<(KubernetesObject | undefined)[]> {
    const objects: (KubernetesObject | undefined)[] = [];
    for await (const { object } of this.each(keys)) objects.push(object);
    return objects;
  }

  /** The same one by one, each decoded when it is asked for, so that large ones are not in memory together. */
  async *each(
    keys: readonly string[],
    slice = new TimeSlice(),
  ): AsyncGenerator<{ key: string; object: KubernetesObject | undefined }> {
    const found = await this.stored(keys);
    slice.restart();
    for (const [at, key] of keys.entries()) {
      yield { key, object: found[at]?.decode() };
      if (slice.isOver) await slice.next();
    }
  }

  /** The same before they are decoded, which is what reading them costs this thread. */
  async stored(keys: readonly string[]): Promise<(EncodedObject | undefined)[]> {
    if (keys.length === 0) return [];
    const found = await this.#redis.hmgetBuffer(this.#keys.objects, ...keys);
    return keys.map((key, at) => {
      const bytes = found[at];
      return bytes ? { bytes: bytes.length, decode: () => this.#objectOf(key, bytes) } : undefined;
    });
  }

  #objectOf(key: string, stored: Buffer): KubernetesObject {
    try {
      return JSON.parse(this.#decode(key, stored).toString('utf8')) as KubernetesObject;
    } catch (error) {
      if (error instanceof ObjectKeptOutError) return error.metadataOnly;
      throw error;
    }
  }

  #decode(key: string, stored: Buffer): Buffer {
    try {
      return this.#codec.decode(key, stored);
    } catch (error) {
      if (error instanceof UnreadableObjectError) this.#onUnreadable(error);
      throw error;
    }
  }

  /** What an object looks like in Redis: the `object` of an operation. */
  encode(key: string, json: string): string | Buffer {
    return this.#codec.encode(key, json);
  }

  /** The same for an object that is kept out of the cache. */
  encodeMark(key: string, mark: Mark): string | Buffer {
    return this.#codec.encodeMark(key, mark);
  }

  /** Removes all of it, as if Redis had lost it. */
  async discard(): Promise<void> {
    await unlinkAll(this.#redis, `${this.location.prefix}:`);
  }

  /**
   * Encrypts with the writing key whatever another one has encrypted; afterwards the others are not needed. Nothing to
   * do for a view that has been through this with the same key, or is not encrypted. Once taken, and before anything is
   * applied.
   * @throws UnreadableObjectError, ForeignWriterError
   */
  async reencrypt(): Promise<void> {
    const { encryptedBy } = this.#codec;
    if (encryptedBy === undefined) return;
    if ((await this.#redis.hget(this.#keys.view, 'encryptedBy')) === encryptedBy) return;
    for await (const keys of this.keys(50)) {
      const stored = await this.#redis.hmgetBuffer(this.#keys.objects, ...keys);
      const slice = new TimeSlice();
      const pairs: (string | Buffer)[] = [];
      for (const [at, key] of keys.entries()) {
        const bytes = stored[at];
        if (bytes) pairs.push(key, this.#reencoded(key, bytes));
        if (slice.isOver) await slice.next();
      }
      await this.#runReencrypt(pairs);
    }
    // Last: a gateway that ended before this begins again.
    await this.#runReencrypt([], encryptedBy);
  }

  #reencoded(key: string, stored: Buffer): string | Buffer {
    try {
      return this.#codec.encode(key, this.#decode(key, stored).toString('utf8'));
    } catch (error) {
      if (!(error instanceof ObjectKeptOutError)) throw error;
      return this.#codec.encodeMark(key, { reason: error.reason, object: error.metadataOnly });
    }
  }

  async #runReencrypt(pairs: readonly (string | Buffer)[], encryptedBy = ''): Promise<void> {
    const { view, objects } = this.#keys;
    const answer = await this.#reencrypt([view, objects], [this.#writerId, encryptedBy, ...pairs]);
    if (answer === -1) throw this.#foreign();
  }

  /**
   * All keys, in order, in parts of `count`. A caller that reads their objects asks for few at a time: each may have
   * megabytes.
   */
  async *keys(count = 1000): AsyncGenerator<string[]> {
    let after = '-';
    for (;;) {
      const keys = await this.#redis.zrangebylex(this.#keys.order, after, '+', 'LIMIT', 0, count);
      if (keys.length === 0) return;
      yield keys;
      after = `(${keys.at(-1)}`;
    }
  }

  /**
   * The object with the newest version, if there is any. Reads all entries: for a resume or a relist, not for a run.
   */
  async newest(): Promise<{ key: string; entry: ObjectEntry } | undefined> {
    let newest: { key: string; entry: ObjectEntry } | undefined;
    for await (const keys of this.keys()) {
      const entries = await this.entries(keys);
      entries.forEach((entry, at) => {
        if (!entry) return;
        const newer = !newest || compareResourceVersions(entry.resourceVersion, newest.entry.resourceVersion) > 0;
        if (newer) newest = { key: keys[at] ?? '', entry };
      });
    }
    return newest;
  }

  /** Keys of the objects that carry all these index entries; of all objects when there are none. */
  keysWith(entries: readonly string[]): Promise<string[]> {
    const [first, ...others] = entries.map((entry) => this.#keys.indexPrefix + entry);
    return first === undefined ? this.#redis.hkeys(this.#keys.objects) : this.#redis.sinter(first, ...others);
  }

  /** How many of its objects are kept out of the cache. @param namespaces count in these alone */
  async keptOutCount(namespaces?: readonly string[]): Promise<number> {
    if (namespaces === undefined) return this.#redis.scard(this.#keys.indexPrefix + KEPT_OUT_INDEX);
    const found = await Promise.all(namespaces.map((each) => this.keysWith([KEPT_OUT_INDEX, namespaceIndex(each)])));
    return found.reduce((sum, keys) => sum + keys.length, 0);
  }

  size(): Promise<number> {
    return this.#redis.hlen(this.#keys.objects);
  }

  /**
   * Runs the apply script: all of the chunk, or nothing.
   * @throws ForeignWriterError
   */
  async apply(chunk: Chunk): Promise<void> {
    const keys = this.#keys;
    const args: (string | number | Buffer)[] = [
      this.#writerId,
      keys.indexPrefix,
      chunk.version ?? '',
      chunk.incomparable ? '1' : '',
      chunk.incarnation ?? '',
      chunk.users.join('\n'),
      chunk.failed.join('\n'),
      chunk.operations.length,
    ];
    for (const operation of chunk.operations) {
      if (operation.kind === 'S') args.push('S', operation.key, operation.entry, operation.object);
      else args.push('D', operation.key, operation.version, '');
    }
    args.push(chunk.wakeups.length);
    for (const wakeup of chunk.wakeups) {
      const lookup = 'lookup' in wakeup ? JSON.stringify(wakeup.lookup) : '';
      args.push(wakeup.controller, 'key' in wakeup ? wakeup.key : '', lookup, JSON.stringify(wakeup.reasons));
    }
    const answer = await this.#apply([keys.view, keys.objects, keys.entries, keys.order, keys.outbox], args);
    if (answer === -1) throw this.#foreign();
  }

  /** The declared indexes that are complete. */
  async indexes(): Promise<IndexSpec[]> {
    const text = await this.#redis.hget(this.#keys.view, 'indexes');
    return text === null ? [] : (JSON.parse(text) as IndexSpec[]);
  }

  /** Declared indexes that objects may stand in though they are not complete: being filled, or withdrawn. */
  async filling(): Promise<IndexSpec[]> {
    const text = await this.#redis.hget(this.#keys.view, 'filling');
    return text ? (JSON.parse(text) as IndexSpec[]) : [];
  }

  /** @param filling see `filling`. @throws ForeignWriterError */
  async setIndexes(specs: readonly IndexSpec[], filling: readonly IndexSpec[] = []): Promise<void> {
    const text = filling.length === 0 ? '' : JSON.stringify(filling);
    await this.#set({ indexes: JSON.stringify(specs), filling: text });
  }

  /** Puts objects under the indexes of `to`, each unless it has changed since its entry `from` was read. */
  async reindex(moves: readonly { key: string; from: ObjectEntry; to: ObjectEntry }[]): Promise<void> {
    if (moves.length === 0) return;
    const args = moves.flatMap(({ key, from, to }) => [key, encodeEntry(from), encodeEntry(to)]);
    const answer = await this.#reindex(
      [this.#keys.view, this.#keys.entries],
      [this.#writerId, this.#keys.indexPrefix, ...args],
    );
    if (answer === -1) throw this.#foreign();
  }

  /** Wakeups that no queue has yet, oldest first. @param after the id of an entry: those behind it. */
  async outbox(count: number, after?: string): Promise<OutboxEntry[]> {
    const from = after === undefined ? '-' : `(${after}`;
    const found = await this.#redis.xrange(this.#keys.outbox, from, '+', 'COUNT', count);
    return found.map(([id, fields]) => {
      // XADD wrote c, k, l, r in this order.
      const [, controller = '', , key = '', , lookup = '', , text = '[]'] = fields;
      return { id, controller, wakeup: wakeupOf({ controller, key, lookup, text }) };
    });
  }

  /** How long the oldest wakeup has been in the outbox, in milliseconds by Redis' clock; undefined when it is empty. */
  async outboxAgeMs(): Promise<number | undefined> {
    const [[first], [seconds = 0]] = await Promise.all([
      this.#redis.xrange(this.#keys.outbox, '-', '+', 'COUNT', 1),
      this.#redis.time(),
    ]);
    return first && Math.max(0, seconds * 1000 - Number.parseInt(first[0], 10));
  }

  async acknowledge(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.xdel(this.#keys.outbox, ...ids);
  }
}
