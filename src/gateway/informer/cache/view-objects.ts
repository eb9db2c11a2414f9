import {
  compareResourceVersions,
  decodeObjectKey,
  type KubernetesObject,
  parseJson,
  TenantTurns,
} from '../../../core/index.ts';
import {
  decodeEntry,
  KEPT_OUT_INDEX,
  keyRange,
  namespaceOf,
  type ObjectEntry,
  type ViewKeys,
} from '../../../contract/cache-layout.ts';
import type { IndexSpec } from '../../../contract/index.ts';
import {
  isPlain,
  type Mark,
  type ObjectCodec,
  ObjectKeptOutError,
  UnreadableObjectError,
} from '../../../contract/node/codec.ts';
import { loadScript, type Redis, type Script } from '../../../ground/redis/redis.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import type { LastWritten } from './last-written.ts';
import type { ViewWriter } from './view-writer.ts';

/** An object as Redis has it. */
export interface EncodedObject {
  /** The length of its JSON; Infinity where that shows only when it is decoded: it is compressed or encrypted. */
  readonly bytes: number;
  readonly decode: () => KubernetesObject;
}

/** See `ViewObjects.heads`. */
export interface HeadsOptions {
  readonly index?: string;
  readonly tenant?: string;
  readonly paid?: (bytes: number) => unknown;
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

/** Lua's stack has room for 8000 arguments of a command. */
const MOST_ENTRIES = 1000;
/** Bytes of entries that one script looks at for their heads, unless it is a single entry. */
const HEADS_BYTES = 1024 * 1024;
/** Objects may be large, and Redis does nothing else while it collects them. */
const MOST_FEW = 20;
/** Bytes of the objects that one answer of Redis holds, unless it is a single one. */
export const ANSWER_BYTES = 2 * 1024 * 1024;
/**
 * Such answers that are under way on a connection, of all its views; a client's read of a single object is not counted.
 * Redis holds them in its memory, and each other command of the connection waits behind them: all keys of fifty
 * controllers, read at once, were 67 MB, and a start of a run took a second.
 */
const MOST_ANSWERS = 4;
const answers = new WeakMap<Redis, TenantTurns>();
/**
 * The answers of which `visit` decodes the objects, one of each tenant: what an object takes in memory may be 23 times
 * its text.
 */
const visits = new TenantTurns(Infinity, 1);

/** The objects of a view: reads, their form in Redis, and its change to another key of encryption. */
export class ViewObjects {
  readonly #redis: Redis;
  readonly #name: string;
  readonly #keys: ViewKeys;
  readonly #writer: ViewWriter;
  readonly #lastWritten: LastWritten;
  readonly #codec: ObjectCodec;
  readonly #answers: TenantTurns;
  readonly #reencrypt: Script;
  readonly #findFew: Script;
  readonly #read: Script;
  readonly #heads: Script;
  #onUnreadable: (error: UnreadableObjectError) => void = () => {};

  constructor(redis: Redis, { name, keys, writer, lastWritten, codec }: ViewObjectsOptions) {
    this.#redis = redis;
    this.#name = name;
    this.#keys = keys;
    this.#writer = writer;
    this.#lastWritten = lastWritten;
    this.#codec = codec;
    this.#answers = answers.get(redis) ?? new TenantTurns(MOST_ANSWERS);
    answers.set(redis, this.#answers);
    this.#reencrypt = loadScript(redis, import.meta.url, 'reencrypt');
    this.#read = loadScript(redis, import.meta.url, 'read', 'buffers');
    this.#heads = loadScript(redis, import.meta.url, 'heads');
    this.#findFew = loadScript(redis, import.meta.url, 'find-few', 'buffers');
  }

  /** Whether they are encrypted in Redis. */
  get encrypted(): boolean {
    return this.encryptedBy !== undefined;
  }

  /** Names the key that encrypts them in Redis; undefined: none does. */
  get encryptedBy(): string | undefined {
    return this.#codec.encryptedBy;
  }

  /** The listener is called with each object that could not be read, whichever read found it. */
  onUnreadable(listener: (error: UnreadableObjectError) => void): void {
    this.#onUnreadable = listener;
  }

  /**
   * Entries of these keys, in their order; undefined where the view has none. An object of a tenant with long values in
   * many indexes has a long one.
   */
  async entries(keys: readonly string[]): Promise<(ObjectEntry | undefined)[]> {
    const found: (ObjectEntry | undefined)[] = [];
    while (found.length < keys.length) {
      for (const text of await this.#first(this.#keys.entries, keys.slice(found.length, found.length + MOST_ENTRIES))) {
        found.push(text ? decodeEntry(text.toString('utf8')) : undefined);
      }
    }
    return found;
  }

  /** The first of these fields of a HASH, one at least and as many as have `ANSWER_BYTES`. */
  async #first(hash: string, fields: readonly string[]): Promise<(Buffer | null)[]> {
    return (await this.#read([hash], [ANSWER_BYTES, ...fields])) as (Buffer | null)[];
  }

  /**
   * As `entries`, with at most one index entry each: for a caller that needs few lines of many keys.
   * @param options.index the beginning of that index entry. Default: the answer has none.
   * @param options.tenant the reads wait for the turn of this tenant. Default: they do not wait.
   * @param options.paid called with the bytes that each script has looked at.
   */
  async heads(
    keys: readonly string[],
    { index = '', tenant, paid }: HeadsOptions = {},
  ): Promise<(ObjectEntry | undefined)[]> {
    const found: (ObjectEntry | undefined)[] = [];
    while (found.length < keys.length) {
      const args = [HEADS_BYTES, index, ...keys.slice(found.length, found.length + MOST_ENTRIES)];
      const read = (): Promise<unknown> => this.#heads([this.#keys.entries], args);
      const [bytes, ...heads] = (await (tenant === undefined ? read() : this.inTurn(tenant, read))) as [
        number,
        ...(string | null)[],
      ];
      paid?.(bytes);
      for (const head of heads) found.push(head === null ? undefined : decodeEntry(head));
    }
    return found;
  }

  /** As `heads`, without a trip to Redis for objects that this process has written last (see `LastWritten`). */
  async recentHeads(keys: readonly string[], options: HeadsOptions): Promise<(ObjectEntry | undefined)[]> {
    return this.#recent(keys, (missing) => this.heads(missing, options));
  }

  /** As `entries`, without a trip to Redis for objects that this process has written last (see `LastWritten`). */
  async recentEntries(keys: readonly string[]): Promise<(ObjectEntry | undefined)[]> {
    return this.#recent(keys, (missing) => this.entries(missing));
  }

  async #recent(
    keys: readonly string[],
    readMissing: (keys: readonly string[]) => Promise<(ObjectEntry | undefined)[]>,
  ): Promise<(ObjectEntry | undefined)[]> {
    const known = this.#lastWritten.trusted;
    if (!known) return readMissing(keys);
    const found = keys.map((key) => known.entry(key));
    const missing = keys.filter((_, at) => found[at] === 'unknown');
    const read = (await readMissing(missing)).values();
    return found.map((each) => (each === 'unknown' ? read.next().value : each === 'absent' ? undefined : each));
  }

  /** Undefined where the view has no object. For an object that is kept out, its metadata. */
  async get(key: string): Promise<KubernetesObject | undefined> {
    const [encoded] = await this.first([key]);
    return encoded?.decode();
  }

  /** Why the object of a key is kept out of the cache, in a few words; undefined: it is not, or there is none. */
  async keptOutReason(key: string): Promise<string | undefined> {
    const [entry] = await this.entries([key]);
    if (!entry?.indexEntries.includes(KEPT_OUT_INDEX)) return undefined;
    const [stored] = await this.#first(this.#keys.objects, [key]);
    try {
      if (stored) this.decode(key, stored);
    } catch (error) {
      if (error instanceof ObjectKeptOutError) return error.reason;
      throw error;
    }
    return undefined;
  }

  /**
   * Calls `look` with each object, undefined where the view has none. Nothing holds the object afterwards: what waited
   * with it would keep it in memory, with those of all other work that waits, and to collect such garbage takes this
   * thread longer than to decode it.
   * @param slice of the tenant, and ends the reading if its signal is aborted.
   */
  async visit(
    keys: readonly string[],
    look: (key: string, object: KubernetesObject | undefined) => void,
    slice = this.newSlice(),
  ): Promise<void> {
    for (let from = 0; from < keys.length;) {
      from += await visits.run(slice.tenant, async () => {
        const found = await this.first(keys.slice(from), slice.tenant);
        slice.restart();
        for (const [at, encoded] of found.entries()) {
          slice.throwIfEnded();
          look(keys[from + at] ?? '', encoded?.decode());
          if (slice.isOver) await slice.next();
        }
        return found.length;
      });
    }
  }

  /**
   * As `get` for each key, decoded when it is asked for, so that large objects are not in memory together.
   * @param slice ends the loop, too, if its signal is aborted.
   */
  async *each(
    keys: readonly string[],
    slice = this.newSlice(),
  ): AsyncGenerator<{ key: string; object: KubernetesObject | undefined }> {
    for await (const { key, encoded } of this.eachEncoded(keys, slice)) yield { key, object: encoded?.decode() };
  }

  /** As `each`, but the caller decodes the objects, because decoding is the part that costs this thread time. */
  async *eachEncoded(
    keys: readonly string[],
    slice = this.newSlice(),
  ): AsyncGenerator<{ key: string; encoded: EncodedObject | undefined }> {
    for (let from = 0; from < keys.length;) {
      const found = await this.first(keys.slice(from), slice.tenant);
      slice.restart();
      for (const [at, encoded] of found.entries()) {
        slice.throwIfEnded();
        yield { key: keys[from + at] ?? '', encoded };
        if (slice.isOver) await slice.next();
      }
      from += found.length;
    }
  }

  /**
   * The first of these objects, one at least and as many as have `ANSWER_BYTES`, because Redis holds an answer in its
   * memory; not yet decoded, because that costs this thread time.
   * @param tenant reads them, and waits for its turn among the tenants. Default: the gateway itself.
   */
  async first(keys: readonly string[], tenant = ''): Promise<(EncodedObject | undefined)[]> {
    const stored = await this.inTurn(tenant, () => this.#first(this.#keys.objects, keys));
    return this.#encoded(keys.slice(0, stored.length), stored);
  }

  /**
   * Objects by a declared index, in one trip.
   * @param tenant see `first`.
   * @returns undefined while the index is not complete, and if there may be more of them than are read at a time
   */
  async findFew({ entries, anyOf, declared }: IndexQuery, tenant = ''): Promise<FoundObjects | undefined> {
    const keys = [this.#keys.view, this.#keys.objects, this.#keys.indexPrefix];
    const made = `${namespaceOf(entries) ?? ''}/${declared}`;
    const most = [MOST_FEW, ANSWER_BYTES];
    const args = [declared, made, ...most, entries.length, ...entries, ...anyOf];
    const answer = await this.inTurn(tenant, () => this.#findFew(keys, args));
    if (answer === null) return undefined;
    const [names, objects] = answer as [Buffer[], (Buffer | null)[]];
    const found = names.map((name) => name.toString('utf8'));
    return { keys: found, objects: this.#encoded(found, objects) };
  }

  /**
   * Runs a read of up to `ANSWER_BYTES`. A connection has `MOST_ANSWERS` of them under way.
   * @param tenant waits for its turn among the tenants; '' is the gateway itself.
   */
  inTurn<T>(tenant: string, read: () => Promise<T>): Promise<T> {
    return this.#answers.run(tenant, read);
  }

  #encoded(keys: readonly string[], stored: readonly (Buffer | null)[]): (EncodedObject | undefined)[] {
    return keys.map((key, at) => {
      const bytes = stored[at];
      return bytes
        ? { bytes: isPlain(bytes) ? bytes.length : Infinity, decode: () => this.#objectOf(key, bytes) }
        : undefined;
    });
  }

  #objectOf(key: string, stored: Buffer): KubernetesObject {
    try {
      const bytes = this.decode(key, stored);
      return parseJson(bytes.toString('utf8')) as KubernetesObject;
    } catch (error) {
      if (error instanceof ObjectKeptOutError) return error.metadataOnly;
      throw error;
    }
  }

  /** @throws UnreadableObjectError */
  decode(key: string, stored: Buffer): Buffer {
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

  /**
   * Encrypts objects again that another key than the writing key has encrypted; afterwards the other keys are not
   * needed. Does nothing for an unencrypted view, or if the view names the writing key. Nothing may be applied
   * until it ends.
   * @throws UnreadableObjectError, ForeignWriterError
   */
  async reencrypt(): Promise<void> {
    const { encryptedBy } = this.#codec;
    if (encryptedBy === undefined) return;
    if ((await this.#redis.hget(this.#keys.view, 'encryptedBy')) === encryptedBy) return;
    for await (const keys of this.keys(50)) {
      for (let from = 0; from < keys.length;) {
        const stored = await this.#first(this.#keys.objects, keys.slice(from));
        const slice = this.newSlice();
        const pairs: (string | Buffer)[] = [];
        for (const [at, bytes] of stored.entries()) {
          const key = keys[from + at] ?? '';
          if (bytes) pairs.push(key, this.#reencoded(key, bytes));
          if (slice.isOver) await slice.next();
        }
        await this.#runReencrypt(pairs);
        from += stored.length;
      }
    }
    // Last: a gateway that ended before this begins again.
    await this.#runReencrypt([], encryptedBy);
  }

  /** Of this view's own work: views take turns. */
  newSlice(): TimeSlice {
    return new TimeSlice(`view ${this.#name}`);
  }

  #reencoded(key: string, stored: Buffer): string | Buffer {
    try {
      return this.#codec.encode(key, this.decode(key, stored).toString('utf8'));
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
   * @param namespace of the keys. Default: any.
   * @param from the key behind which they begin. Default: at the first.
   */
  async *keys(count = 1000, namespace?: string, from = ''): AsyncGenerator<string[]> {
    let after = from;
    for (;;) {
      const range = keyRange(namespace, after);
      const keys = await this.#redis.zrangebylex(this.#keys.order, ...range, 'LIMIT', 0, count);
      if (keys.length === 0) return;
      yield keys;
      after = keys.at(-1) ?? '';
    }
  }

  /**
   * The object with the newest version that the server can be asked for, if there is any: none has the name under which
   * the cache has an object with a long one. Reads all entries: for a resume or a relist, not for a run.
   */
  async newest(): Promise<{ key: string; entry: ObjectEntry } | undefined> {
    let newest: { key: string; entry: ObjectEntry } | undefined;
    for await (const keys of this.keys()) {
      const entries = await this.entries(keys);
      entries.forEach((entry, at) => {
        const key = keys[at] ?? '';
        if (!entry || !decodeObjectKey(key)) return;
        const newer = !newest || compareResourceVersions(entry.resourceVersion, newest.entry.resourceVersion) > 0;
        if (newer) newest = { key, entry };
      });
    }
    return newest;
  }

  size(): Promise<number> {
    return this.#redis.hlen(this.#keys.entries);
  }
}

interface ViewObjectsOptions {
  /** `View.name`. */
  readonly name: string;
  readonly keys: ViewKeys;
  readonly writer: ViewWriter;
  readonly lastWritten: LastWritten;
  readonly codec: ObjectCodec;
}
