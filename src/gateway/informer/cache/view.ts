import { randomUUID } from 'node:crypto';
import {
  compareResourceVersions,
  formatKind,
  isResourceVersion,
  type KubernetesObject,
  parseJson,
  type Resource,
  UnavailableError,
} from '../../../core/index.ts';
import { decodeEntry, namespaceOf, type ObjectEntry, type ViewKeys, viewKeys } from '../../../contract/cache-layout.ts';
import type { IndexSpec, ViewLocation } from '../../../contract/index.ts';
import { type Mark, ObjectCodec, ObjectKeptOutError, UnreadableObjectError } from '../../../contract/node/codec.ts';
import { ViewReader } from '../../../contract/node/view-reader.ts';
import type { Chunk } from './chunk.ts';
import { Indexer, type IndexTime } from './indexer.ts';
import { Observations, type ObservedValues } from './observations.ts';
import { LastWritten, type ViewState } from './last-written.ts';
import { Outbox, type OutboxEntry, wakeupArguments } from './outbox.ts';
import { ViewWriter } from './view-writer.ts';
import {
  type Holding,
  type MemoryGuard,
  type MemoryHolder,
  unlimitedMemory,
} from '../../../ground/redis/memory-shares.ts';
import { connectionLosses, loadScript, type Redis, type Script, unlinkAll } from '../../../ground/redis/redis.ts';
import type { PastList } from '../reflector/reflector.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';

/** An object as Redis has it. */
export interface EncodedObject {
  /** Its length, encrypted or compressed as it may be. */
  readonly bytes: number;
  readonly decode: () => KubernetesObject;
}

/** Limits for the objects of a view. */
export interface ViewBounds {
  /** Of Redis' memory. Default: no bound. */
  readonly memory?: MemoryGuard | undefined;
  /** Of processor time for the index values of large objects, by namespace. Default: no bound. */
  readonly indexTime?: ((namespace: string) => IndexTime) | undefined;
}

/** Asks for the objects that carry all `entries` and, if `anyOf` names any, one of them. */
export interface IndexQuery {
  readonly entries: readonly string[];
  readonly anyOf: readonly string[];
  /** The declared index that some of the entries belong to; the others belong to indexes that every view has. */
  readonly declared: IndexSpec;
}

/** The answer of an index. */
export interface FoundObjects {
  readonly keys: readonly string[];
  /** In the order of the keys; undefined where the view has no object. */
  readonly objects: readonly (EncodedObject | undefined)[];
}

/** Objects may be large, and Redis does nothing else while it collects them. */
const MOST_FEW = 20;
/** Objects that one answer holds, unless it is a single one. */
const ANSWER_BYTES = 2 * 1024 * 1024;

/** The field of a view's HASH that counts how often a user was absent and missed changes. */
function missedField(user: string): string {
  return `missed:${user}`;
}

/** One resource's part of the cache in Redis: reads and the writes of its one writer. All keys share a hash tag. */
export class View implements MemoryHolder {
  readonly holding: Holding = 'objects';
  readonly resource: Resource;
  readonly location: ViewLocation;
  /** Wakeups of its changes that are in no queue yet. */
  readonly outbox: Outbox;
  /** Its indexes. */
  readonly indexer: Indexer;
  /** Since when the values of observed fields are unchanged. */
  readonly observations: Observations;
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #writer: ViewWriter;
  readonly #lastWritten: LastWritten;
  readonly #apply: Script;
  readonly #reencrypt: Script;
  readonly #findFew: Script;
  readonly #read: Script;
  readonly #codec: ObjectCodec;
  readonly #memory: MemoryGuard;
  readonly #weigh: Script;
  /** The highest position that this process has seen. */
  #position: number | undefined;
  #asking: Promise<number | undefined> | undefined;
  #onUnreadable: (error: UnreadableObjectError) => void = () => {};

  /**
   * @param codec Default: encrypts nothing.
   * @param bounds limits on the memory and the time that the objects take. Default: no limits.
   */
  constructor(
    redis: Redis,
    resource: Resource,
    location: ViewLocation,
    codec: ObjectCodec = new ObjectCodec({ prefix: location.prefix }),
    { memory = unlimitedMemory, indexTime }: ViewBounds = {},
  ) {
    this.#redis = redis;
    this.resource = resource;
    this.location = location;
    this.#codec = codec;
    this.#memory = memory;
    this.#keys = viewKeys(location.prefix);
    this.#lastWritten = new LastWritten(redis);
    this.#writer = new ViewWriter(redis, this.name, this.#keys, () => this.#lastWritten.forget());
    this.outbox = new Outbox(redis, this.#keys.outbox);
    const onMoved = (keys: readonly string[]): void => this.#lastWritten.current.forgetEntries(keys);
    this.indexer = new Indexer(redis, this.#keys, this.#writer, onMoved, indexTime);
    this.observations = new Observations(redis, this.#keys, this.#writer);
    this.#apply = loadScript(redis, import.meta.url, 'apply');
    this.#reencrypt = loadScript(redis, import.meta.url, 'reencrypt');
    this.#weigh = loadScript(redis, import.meta.url, 'weigh-objects');
    this.#read = loadScript(redis, import.meta.url, 'read', 'buffers');
    this.#findFew = loadScript(redis, import.meta.url, 'find-few', 'buffers');
  }

  /** The kind, and the namespace of a view that holds one. */
  get name(): string {
    const { namespace } = this.location;
    return namespace === undefined ? formatKind(this.resource) : `${formatKind(this.resource)} in ${namespace}`;
  }

  /** Begins all its keys in Redis. */
  get prefix(): string {
    return this.location.prefix;
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

  /** The listener is called with each object that could not be read, whichever read found it. */
  onUnreadable(listener: (error: UnreadableObjectError) => void): void {
    this.#onUnreadable = listener;
  }

  /** Whether an object of this namespace would be here. */
  contains(namespace: string | undefined): boolean {
    return this.location.namespace === undefined || this.location.namespace === namespace;
  }

  /** See `MemoryGuard.reserve`. @param sizes pairs of a namespace and the bytes to write for it. */
  reserve(sizes: () => readonly (readonly [namespace: string | undefined, bytes: number])[]): Promise<void> {
    return this.#memory.reserve(this.prefix, sizes);
  }

  /** Why objects of this namespace are kept out for want of memory; undefined: they are not. */
  leftOut(namespace: string | undefined): string | undefined {
    return this.#memory.leftOut(this.prefix, this.holding, namespace);
  }

  /** See `MemoryHolder`. */
  async weigh(): Promise<ReadonlyMap<string, number>> {
    const sums = new Map<string, number>();
    if (!this.resource.namespaced) return sums;
    const { entries, objects, order } = this.#keys;
    for (let from = '-'; ;) {
      const [last, ...found] = (await this.#weigh([order, objects, entries], [from])) as [string, ...unknown[]];
      for (let at = 0; at < found.length; at += 3) {
        const namespace = String(found[at]);
        const observed = Number(found[at + 2]) * this.observations.bytesIn(namespace);
        sums.set(namespace, (sums.get(namespace) ?? 0) + Number(found[at + 1]) + observed);
      }
      if (last === '') return sums;
      from = `(${last}`;
    }
  }

  /** Becomes the writer in place of any other: from now on the scripts refuse every other writer ID. */
  claim(writerId: string): Promise<void> {
    return this.#writer.claim(writerId);
  }

  /** This gateway writes to the view no longer, until it claims it again. The ID in Redis stays for the next writer. */
  release(): void {
    this.#writer.release();
  }

  /**
   * Becomes the writer again where Redis has lost its ID. All objects of an empty view will be encrypted with the
   * writing key.
   * @throws ForeignWriterError when another gateway has taken the view.
   */
  async reclaim(): Promise<void> {
    await this.#writer.reclaim();
    const { encryptedBy } = this.#codec;
    if (encryptedBy !== undefined && (await this.size()) === 0) await this.#runReencrypt([], encryptedBy);
  }

  /** The view's state as Redis has it now. */
  async state(): Promise<ViewState> {
    const known = this.#lastWritten.current;
    const fields = [
      'version',
      'shownMs',
      'incarnation',
      'runId',
      'rewound',
      'unserved',
      'writerId',
      'position',
    ] as const;
    const [version, shownMs, incarnation, runId, rewound, unserved, writerId, position] = await this.#redis.hmget(
      this.#keys.view,
      ...fields,
    );
    this.#recordPosition(Number(position));
    const state = {
      version: isResourceVersion(version) ? version : undefined,
      // Without a version it was emptied after it was found in order: there is nothing that could have been filled.
      incarnation: isResourceVersion(version) ? (incarnation ?? undefined) : undefined,
      runId: runId ?? undefined,
      shownMs: isResourceVersion(version) && shownMs ? Number(shownMs) : undefined,
      rewound: rewound === '1',
      isServed: unserved !== '1',
      writerId: writerId ?? undefined,
    };
    if (this.#writer.is(state.writerId)) known.recordState(state);
    else this.#lastWritten.forget();
    return state;
  }

  /**
   * Version, incarnation and age, without a trip to Redis in the gateway that writes the view (see `LastWritten`).
   * Redis has this version or a later one, unless it has lost data within the last two seconds and has kept the
   * connection.
   */
  async progress(): Promise<Pick<ViewState, 'version' | 'incarnation' | 'shownMs' | 'rewound'>> {
    return this.#lastWritten.trusted?.state ?? this.state();
  }

  /**
   * The position of the view at this moment or later; undefined before its first write. A reader that finds a lower
   * position reads a view that lacks writes from before this call. The gateway that writes the view knows the position.
   * Another gateway asks Redis, with one command for all calls of one turn of the event loop.
   * @throws UnavailableError when the connection was lost during the request: the answer may come from a process that
   *   lacks writes.
   */
  async position(): Promise<number | undefined> {
    if (this.#writer.isWriter) return this.#position;
    return (this.#asking ??= this.#askPosition());
  }

  async #askPosition(): Promise<number | undefined> {
    // Behind all calls of this turn.
    await Promise.resolve();
    this.#asking = undefined;
    const losses = connectionLosses(this.#redis);
    const position = await this.#redis.hget(this.#keys.view, 'position');
    if (losses !== connectionLosses(this.#redis)) throw new UnavailableError('the connection to Redis was lost');
    return position === null ? undefined : Number(position);
  }

  /** Answers come in any order, and after a loss of data with a lower position. */
  #recordPosition(position: number): void {
    if (position > (this.#position ?? 0)) this.#position = position;
  }

  /** Starts a new incarnation on the Redis process `runId`. @throws ForeignWriterError */
  async renew(runId: string): Promise<void> {
    const fields = { incarnation: randomUUID(), runId };
    this.#recordPosition(await this.#writer.set(fields, this.#position));
    this.#lastWritten.forget();
  }

  /**
   * From here to the end of the list the view is a mixture: should this gateway end before, the next lists it again.
   */
  async markRewound(): Promise<void> {
    await this.#writer.set({ rewound: '1' });
    this.#lastWritten.forget();
  }

  /** Whether the server serves the resource, as far as is known. @throws ForeignWriterError */
  async markServed(isServed: boolean): Promise<void> {
    await this.#writer.set({ unserved: isServed ? '' : '1' });
    this.#lastWritten.forget();
  }

  /** See `ViewState.shownMs`. @throws ForeignWriterError */
  async recordShown(shownMs: number): Promise<void> {
    const known = this.#lastWritten.current;
    await this.#writer.set({ shownMs: String(shownMs) });
    known.recordShown(shownMs);
  }

  /** The last list of the server that was completely applied, by any gateway; undefined when there was none. */
  async lastList(): Promise<PastList | undefined> {
    const text = await this.#redis.hget(this.#keys.view, 'lastList');
    return text === null ? undefined : (parseJson(text) as PastList);
  }

  /** @throws ForeignWriterError */
  async recordList(list: PastList): Promise<void> {
    await this.#writer.set({ lastList: JSON.stringify(list) });
  }

  /** The users that received the last changes. */
  async hearers(): Promise<readonly string[]> {
    return ((await this.#redis.hget(this.#keys.view, 'users')) ?? '').split('\n').filter((user) => user !== '');
  }

  /** How many times `user` was absent from the users that receive changes, after it had been among them. */
  async missedBy(user: string): Promise<string> {
    return (await this.#redis.hget(this.#keys.view, missedField(user))) ?? '';
  }

  /** @throws ForeignWriterError */
  async recordMissed(user: string): Promise<void> {
    await this.#writer.increment(missedField(user));
  }

  /** Entries of these keys, in their order; undefined where the view has none. */
  async entries(keys: readonly string[]): Promise<(ObjectEntry | undefined)[]> {
    if (keys.length === 0) return [];
    const texts = await this.#redis.hmget(this.#keys.entries, ...keys);
    return texts.map((text) => (text === null ? undefined : decodeEntry(text)));
  }

  /** As `entries`, without a trip to Redis for objects that this process has written last (see `LastWritten`). */
  async recentEntries(keys: readonly string[]): Promise<(ObjectEntry | undefined)[]> {
    const known = this.#lastWritten.trusted;
    if (!known) return this.entries(keys);
    const found = keys.map((key) => known.entry(key));
    const missing = keys.filter((_, at) => found[at] === 'unknown');
    const read = (await this.entries(missing)).values();
    return found.map((each) => (each === 'unknown' ? read.next().value : each === 'absent' ? undefined : each));
  }

  /**
   * The objects of these keys, in their order; undefined where the view has no object. For an object that is kept out,
   * its metadata.
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
    for await (const { key, encoded } of this.eachEncoded(keys, slice)) yield { key, object: encoded?.decode() };
  }

  /** As `each`, but the caller decodes the objects, because decoding is the part that costs this thread time. */
  async *eachEncoded(
    keys: readonly string[],
    slice = new TimeSlice(),
  ): AsyncGenerator<{ key: string; encoded: EncodedObject | undefined }> {
    for (let from = 0; from < keys.length;) {
      const found = await this.#readFirst(keys.slice(from));
      slice.restart();
      for (const [at, encoded] of found.entries()) {
        yield { key: keys[from + at] ?? '', encoded };
        if (slice.isOver) await slice.next();
      }
      from += found.length;
    }
  }

  /** The objects of these keys before they are decoded, because decoding is the part that costs this thread time. */
  async stored(keys: readonly string[]): Promise<(EncodedObject | undefined)[]> {
    const found: (EncodedObject | undefined)[] = [];
    while (found.length < keys.length) found.push(...(await this.#readFirst(keys.slice(found.length))));
    return found;
  }

  /**
   * The first of these objects, as many as have `ANSWER_BYTES`: Redis holds an answer in its memory, which it fills.
   */
  async #readFirst(keys: readonly string[]): Promise<(EncodedObject | undefined)[]> {
    const stored = (await this.#read([this.#keys.objects], [ANSWER_BYTES, ...keys])) as (Buffer | null)[];
    return this.#encoded(keys.slice(0, stored.length), stored);
  }

  /**
   * Objects by a declared index, in one trip.
   * @returns undefined while the index is not complete, and if there may be more of them than are read at a time
   */
  async findFew({ entries, anyOf, declared }: IndexQuery): Promise<FoundObjects | undefined> {
    const keys = [this.#keys.view, this.#keys.objects, this.#keys.indexPrefix];
    const made = `${namespaceOf(entries) ?? ''}/${declared}`;
    const most = [MOST_FEW, ANSWER_BYTES];
    const answer = await this.#findFew(keys, [declared, made, ...most, entries.length, ...entries, ...anyOf]);
    if (answer === null) return undefined;
    const [names, objects] = answer as [Buffer[], (Buffer | null)[]];
    const found = names.map((name) => name.toString('utf8'));
    return { keys: found, objects: this.#encoded(found, objects) };
  }

  #encoded(keys: readonly string[], stored: readonly (Buffer | null)[]): (EncodedObject | undefined)[] {
    return keys.map((key, at) => {
      const bytes = stored[at];
      return bytes ? { bytes: bytes.length, decode: () => this.#objectOf(key, bytes) } : undefined;
    });
  }

  #objectOf(key: string, stored: Buffer): KubernetesObject {
    try {
      const bytes = this.#decode(key, stored);
      return parseJson(bytes.toString('utf8'), bytes) as KubernetesObject;
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

  /** The form of an object in Redis: the `object` of an operation. */
  encode(key: string, json: string): string | Buffer {
    return this.#codec.encode(key, json);
  }

  /** The same for an object that is kept out of the cache. */
  encodeMark(key: string, mark: Mark): string | Buffer {
    return this.#codec.encodeMark(key, mark);
  }

  /** Removes all of it, as if Redis had lost it. */
  async discard(): Promise<void> {
    this.#lastWritten.forget();
    await unlinkAll(this.#redis, `${this.location.prefix}:`);
  }

  /**
   * Encrypts objects again that another key than the writing key has encrypted; afterwards the other keys are not
   * needed. Does nothing for an unencrypted view, or if the view names the writing key. Call it after the view is taken
   * and before anything is applied.
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
    await this.#writer.run(this.#reencrypt, [this.#keys.objects], [encryptedBy, ...pairs]);
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

  size(): Promise<number> {
    return this.#redis.hlen(this.#keys.entries);
  }

  /**
   * Runs the apply script, which applies the whole chunk or nothing, and deletes acknowledged entries of the outbox.
   * @returns the entries that it has added to the outbox: the chunk's wakeups.
   * @throws ForeignWriterError
   */
  async apply(chunk: Chunk): Promise<readonly OutboxEntry[]> {
    const { objects, entries, order, outbox, indexPrefix } = this.#keys;
    const known = this.#lastWritten.current;
    const relayed = this.outbox.deletable();
    const args: (string | number | Buffer)[] = [
      indexPrefix,
      chunk.version ?? '',
      chunk.incomparable ? '1' : '',
      chunk.incarnation ?? '',
      chunk.users.join('\n'),
      chunk.failed.join('\n'),
      chunk.onlyNew ? '1' : '',
      chunk.shownMs ?? '',
      relayed.length,
      ...relayed,
      chunk.operations.length,
    ];
    const observed: (ObservedValues | undefined)[] = [];
    for (const operation of chunk.operations) {
      if (operation.kind === 'S') {
        args.push('S', operation.key, operation.entry, operation.object);
        observed.push(operation.observed);
      } else args.push('D', operation.key, operation.version, '');
    }
    args.push(...this.observations.arguments(observed));
    args.push(chunk.wakeups.length);
    for (const wakeup of chunk.wakeups) args.push(...wakeupArguments(wakeup));
    const answer = await this.#writer.run(this.#apply, [objects, entries, order, outbox], args);
    const [changed, position, ...ids] = answer as [number, number, ...string[]];
    this.#recordPosition(position);
    this.outbox.recordDeleted(relayed);
    known.recordApplied(chunk, changed === chunk.operations.length);
    return chunk.wakeups.map((wakeup, at) => ({ id: ids[at] ?? '', controller: wakeup.controller, wakeup }));
  }
}
