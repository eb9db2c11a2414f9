import {
  formatObjectKey,
  isResourceVersion,
  type KubernetesObject,
  parseJson,
  type ResourceVersion,
} from '../../core/index.ts';
import { decodeEntry, isMade, keyRange, type MadeIndex, POSITION, type ViewKeys, viewKeys } from '../cache-layout.ts';
import {
  beyondKey,
  declaredIndexOf,
  indexQueries,
  type EntryQuery,
  isKeySelected,
  isSelected,
  namespaceOfSelection,
  onMetadata,
  type Selection,
} from '../selection.ts';
import { cachedName } from './cached-name.ts';
import { ObjectCodec, ObjectKeptOutError } from './codec.ts';

/** The Redis commands that reading needs; ioredis' Redis has them. */
export interface ViewCommands {
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  hmgetBuffer(key: string, ...fields: string[]): Promise<(Buffer | null)[]>;
  scard(key: string): Promise<number>;
  srandmember(key: string, count: number): Promise<string[]>;
  sinter(...keys: string[]): Promise<string[]>;
  zrangebylex(key: string, min: string, max: string, limit: 'LIMIT', offset: number, count: number): Promise<string[]>;
  zlexcount(key: string, min: string, max: string): Promise<number>;
  multi(commands: string[][]): { exec(): Promise<[Error | null, unknown][] | null> };
}

/** The state of a view. */
export interface ReadableState {
  /** The view is complete up to this version. */
  readonly version: ResourceVersion;
  readonly incarnation: string;
  /**
   * The position of the view (see `POSITION`). The keys below, and objects read with this state, are from it or later.
   */
  readonly position: number;
  /** The declared indexes that are complete. */
  readonly indexes: readonly MadeIndex[];
  /**
   * Keys of the selection by index, read just after the position; undefined when no index covers the selection, or the
   * index has too many.
   */
  readonly keys: readonly string[] | undefined;
  /** The questions to the indexes; none when no index covers the selection. See `indexQueries`. */
  readonly queries: readonly EntryQuery[];
}

/** The view may not be read any more, or Redis has lost writes that were read before. */
export class LostWritesError extends Error {
  override readonly name = 'LostWritesError';
  constructor() {
    super('the cache is being checked: Redis may have lost writes since the read began');
  }
}

/** The view's state for one key at one moment. */
export interface ViewEntry {
  /** See `POSITION`. Undefined: the view may not be read. */
  readonly position: number | undefined;
  /** Null: the view had no such object. */
  readonly stored: Buffer | null;
}

/** One object that was found. */
export interface Found {
  /** `namespace/name`, or `name`. */
  readonly key: string;
  /** Its JSON, in UTF-8. */
  readonly json: Uint8Array;
  /** Decodes the object, which then belongs to the caller. */
  readonly decode: () => KubernetesObject;
}

/** Runs synchronous work, now or later. @param spentMs the thread's time that the caller has taken for it before */
export type Pace = <T>(work: () => T, spentMs?: number) => T | Promise<T>;

type ReadingCodec = Pick<ObjectCodec, 'decode' | 'encryptedBy'>;

export interface SelectOptions {
  /** The state that was read for this selection. */
  readonly state: ReadableState;
  /** The last key to skip: the selection continues behind it. Default: from the start. */
  readonly after?: string;
  /** Size of the first batch, for a caller that needs fewer objects than a whole one has. */
  readonly first?: number;
  /**
   * The most bytes of objects that one command reads; a single larger object is read alone. Redis answers no other
   * client while it runs a command. The sizes cost one more round trip for each batch. A batch ends with the object
   * that brings it to as many bytes, since Redis holds objects compressed. Default: one command reads a batch.
   */
  readonly commandBytes?: number;
  /**
   * The caller does not decode the found objects. Then the object's index entries decide, where they can, whether it
   * still belongs to the selection, so that it need not be parsed for that. Default false.
   */
  readonly verbatim?: boolean;
  /**
   * Called for each selected object that is kept out of the cache, which the result omits. Only the metadata of such
   * an object is known, so conditions on its other fields count as met. Default: does nothing.
   */
  readonly onKeptOut?: ((error: ObjectKeptOutError) => void) | undefined;
  /**
   * Runs the work on one object: to decompress it, and to parse it where the selection asks for that. The gateway lets
   * other work of its thread go first in between, since a selection may have to look at many objects that it does not
   * yield. Default: the objects of a batch follow without a pause.
   */
  readonly pace?: Pace;
  /** Called with the position at which objects were read, before they are yielded. Default: does nothing. */
  readonly onPosition?: (position: number) => void;
}

/**
 * Reads one view in Redis, for the gateway and for functions close to Redis. Every object is at least as new as the
 * version read before it. A list is not a snapshot: its objects may be from different moments. It omits an object that
 * no longer belongs to the selection at the time of the read, and has each object that belonged to it throughout
 * exactly once.
 */
export class ViewReader {
  readonly #redis: ViewCommands;
  readonly #keys: ViewKeys;
  readonly #codec: ReadingCodec;
  readonly #inTurn: <T>(read: () => Promise<T>) => Promise<T>;

  /**
   * @param prefix of the view's keys.
   * @param codec of the view. Default: a codec without keys, which reads no encrypted view.
   * @param inTurn runs a command that reads large objects: Redis holds its answer in memory, and the connection's other
   *   commands wait behind it. Default: at once.
   */
  constructor(
    redis: ViewCommands,
    prefix: string,
    codec: ReadingCodec = new ObjectCodec({ prefix }),
    inTurn: <T>(read: () => Promise<T>) => Promise<T> = (read) => read(),
  ) {
    this.#redis = redis;
    this.#keys = viewKeys(prefix);
    this.#codec = codec;
    this.#inTurn = inTurn;
  }

  /**
   * The state of the view, and in the same round trip the keys of a selection that has an index; by several indexes at
   * once it takes one more. Undefined while the view may not be read.
   * @param most keys to read of an index. `select` looks for more keys than that in the order of all keys, so a page of
   *   a large index costs the page, and no command has an answer as large as a tenant likes. Default: 5000.
   */
  async state(asked: Selection = {}, most = INDEX_KEYS): Promise<ReadableState | undefined> {
    const selection = inCache(asked);
    const named = keyOf(selection);
    const queries = named === undefined ? indexQueries(selection) : [];
    const isSmall = await this.#isSmall(queries, most);
    const [fields, [keys, position]] = await Promise.all([
      // Sent first, so answered first: the keys are not older than the version.
      this.#redis.hmget(this.#keys.view, 'version', 'incarnation', 'indexes', 'position'),
      this.#keysOf(isSmall ? queries : [], most),
    ]);
    const [version, incarnation, text] = fields;
    const first = Number(fields[3] ?? 0);
    if (!isResourceVersion(version) || position === undefined || position < first) return undefined;
    const indexes = madeIndexes(text);
    const state = { version, incarnation: incarnation ?? '', position: first, indexes };
    if (named !== undefined) return { ...state, keys: [named], queries };
    if (isFilled(indexes, selection)) return { ...state, keys, queries };
    // An index that is still being filled cannot give keys.
    const others = indexQueries(selection, false);
    const isOtherSmall = await this.#isSmall(others, most);
    const [ofOthers, later] = await this.#keysOf(isOtherSmall ? others : [], most);
    return later === undefined || later < first ? undefined : { ...state, keys: ofOthers, queries: others };
  }

  /** The view's position now; undefined while the view may not be read. */
  async position(): Promise<number | undefined> {
    const [position = null] = await this.#redis.hmget(this.#keys.objects, POSITION);
    return positionOf(position);
  }

  /** Reads an object without decoding it. */
  async get(key: string): Promise<ViewEntry> {
    const [position, stored = null] = await this.#redis.hmgetBuffer(this.#keys.objects, POSITION, key);
    return { position: positionOf(position), stored };
  }

  /**
   * Decodes an object that was read from the view.
   * @throws UnreadableObjectError, as does `select`; ObjectKeptOutError for an object that is kept out of the cache.
   */
  found(key: string, stored: Buffer | null): Found | undefined {
    return stored === null ? undefined : found(key, this.#codec.decode(key, stored));
  }

  /** The selected objects in the order of their keys, in batches. @throws LostWritesError */
  async *select(asked: Selection, options: SelectOptions): AsyncGenerator<Found[]> {
    const selection = inCache(asked);
    const { commandBytes = Infinity, onKeptOut, pace = atOnce } = options;
    for await (const selected of this.#candidates(selection, options)) {
      if (selected.length === 0) continue;
      const unknown = [{ keys: selected, bytes: Infinity }];
      const parts = commandBytes === Infinity ? unknown : await this.#parts(selected, commandBytes, pace);
      for (const { keys, bytes: inRedis } of parts) {
        const read = () => this.#read(keys, selection, options);
        const { stored, isCertain } = inRedis < LARGE_BYTES ? await read() : await this.#inTurn(read);
        let batch: Found[] = [];
        let size = 0;
        for (const [at, key] of keys.entries()) {
          const bytes = stored[at];
          // Deleted between the trips.
          if (!bytes) continue;
          const work = (): Found | undefined => {
            const object = this.#decode(key, bytes);
            if (!(object instanceof ObjectKeptOutError)) {
              return isCertain(at) || isSelected(object.decode(), selection) ? object : undefined;
            }
            if (isSelected(object.metadataOnly, onMetadata(selection))) onKeptOut?.(object);
            return undefined;
          };
          const object = await pace(work);
          if (!object) continue;
          batch.push(object);
          size += object.json.length;
          // What Redis holds is compressed.
          if (size < commandBytes) continue;
          yield batch;
          batch = [];
          size = 0;
        }
        yield batch;
      }
    }
  }

  /**
   * Divides the keys, in order, into parts whose objects have at most `bytes` together in Redis. A larger object is a
   * part alone. The objects of a part may have far more bytes when they are decompressed, so that is done to one after
   * another, and only selected ones stay in memory.
   */
  async #parts(keys: readonly string[], bytes: number, pace: Pace): Promise<Part[]> {
    const sizes = (await this.#inOneTrip(keys.map((key) => ['hstrlen', this.#keys.objects, key]))) as number[];
    return pace(() => partsOf(keys, sizes, bytes), keys.length * OBJECT_MS);
  }

  #decode(key: string, stored: Buffer): Found | ObjectKeptOutError {
    try {
      return found(key, this.#codec.decode(key, stored));
    } catch (error) {
      if (error instanceof ObjectKeptOutError) return error;
      throw error;
    }
  }

  /** An upper bound of the number of selected objects; exact when only a namespace is selected. */
  async count(selection: Selection, state: ReadableState, after = ''): Promise<number> {
    if (state.keys) return state.keys.filter((key) => key > after).length;
    const [min, max] = keyRange(namespaceOfSelection(selection), after);
    const inOrder = await this.#redis.zlexcount(this.#keys.order, min, max);
    return state.queries.length === 0 ? inOrder : Math.min(inOrder, await this.#mostFound(state.queries));
  }

  /**
   * Reads objects in one round trip, and reports which are certainly selected, without parsing them. One transaction
   * reads an object and its entry, and one transaction changes them, so the entry's indexes are of this very state of
   * the object. An index that the entry lacks may just have been withdrawn: then the object itself decides.
   */
  async #read(
    keys: readonly string[],
    selection: Selection,
    options: SelectOptions,
  ): Promise<{ stored: (Buffer | null)[]; isCertain: (at: number) => boolean }> {
    const { objects, entries } = this.#keys;
    const { indexes, more } = beyondKey(selection);
    // A client that can write to Redis could alter the entry of an encrypted object, but not the object itself.
    if (!options.verbatim || more || indexes.length === 0 || this.#codec.encryptedBy !== undefined) {
      const certain = !more && indexes.length === 0;
      const answer = await this.#redis.hmgetBuffer(objects, POSITION, ...keys);
      return { stored: objectsOf(answer, options), isCertain: () => certain };
    }
    const commands = [
      ['hmgetBuffer', objects, POSITION, ...keys],
      ['hmget', entries, ...keys],
    ];
    const [answer, texts] = (await this.#inOneTrip(commands)) as [(Buffer | null)[], (string | null)[]];
    const stored = objectsOf(answer, options);
    const isCertain = (at: number): boolean => {
      const { indexEntries } = decodeEntry(texts[at] ?? '');
      return indexes.every((each) => indexEntries.includes(each));
    };
    return { stored, isCertain };
  }

  /** Runs commands in one transaction. */
  async #inOneTrip(commands: string[][]): Promise<unknown[]> {
    const answers = await this.#redis.multi(commands).exec();
    if (!answers) throw new Error('Redis has discarded a transaction that watches nothing');
    return answers.map(([error, answer]) => {
      if (error) throw error;
      return answer;
    });
  }

  /** Keys that may be selected, in order. */
  async *#candidates(selection: Selection, options: SelectOptions): AsyncGenerator<string[]> {
    const { state, after = '', first = BATCH, pace = atOnce } = options;
    const { keys: indexed, queries } = state;
    if (indexed) {
      const behind = (): string[] => indexed.filter((key) => key > after && isKeySelected(key, selection)).toSorted();
      const keys = await pace(behind, indexed.length * KEY_MS);
      for (let from = 0; from < keys.length; from += BATCH) yield keys.slice(from, from + BATCH);
      return;
    }
    let size = Math.min(first, BATCH);
    const [start, max] = keyRange(namespaceOfSelection(selection), after);
    let min = start;
    for (;;) {
      const [keys, position] = await Promise.all([
        this.#redis.zrangebylex(this.#keys.order, min, max, 'LIMIT', 0, size),
        this.position(),
      ]);
      checkedPosition(position, state);
      const selected = await pace(() => keys.filter((key) => isKeySelected(key, selection)), keys.length * KEY_MS);
      yield queries.length === 0 || selected.length === 0
        ? selected
        : await this.#carrying(selected, selection, options);
      if (keys.length < size) return;
      min = `(${keys.at(-1)}`;
      size = BATCH;
    }
  }

  /** The keys that answer one of the state's queries; all when their index has been withdrawn. */
  async #carrying(keys: readonly string[], selection: Selection, options: SelectOptions): Promise<string[]> {
    const { state, pace = atOnce } = options;
    const { view, objects, indexPrefix } = this.#keys;
    const entries = [...new Set(state.queries.flat())];
    const questions = entries.map((entry) => ['smismember', indexPrefix + entry, ...keys]);
    const answers = await this.#inOneTrip([...questions, ['hget', view, 'indexes'], ['hget', objects, POSITION]]);
    const [text, position] = answers.slice(entries.length) as (string | null)[];
    checkedPosition(positionOf(position), state);
    const isWithdrawn = isFilled(state.indexes, selection) && !isFilled(madeIndexes(text), selection);
    if (isWithdrawn) return [...keys];
    const carried = new Map(entries.map((entry, at) => [entry, answers[at] as number[]]));
    const isFound = (at: number): boolean =>
      state.queries.some((query) => query.every((entry) => carried.get(entry)?.[at] === 1));
    return pace(() => keys.filter((_, at) => isFound(at)), entries.length * keys.length * KEY_MS);
  }

  /** Whether the indexes have no more keys than this. Of an index alone the command that reads it shows that. */
  async #isSmall(queries: readonly EntryQuery[], most: number): Promise<boolean> {
    const isBounded = most === Infinity || queries.every(({ length }) => length === 1);
    return isBounded || (await this.#mostFound(queries)) <= most;
  }

  /** An upper bound of the number of keys that the queries find. */
  async #mostFound(queries: readonly EntryQuery[]): Promise<number> {
    const bounds = queries.map(async (query) => {
      const sizes = query.map((entry) => this.#redis.scard(this.#keys.indexPrefix + entry));
      return Math.min(...(await Promise.all(sizes)));
    });
    return (await Promise.all(bounds)).reduce((sum, each) => sum + each, 0);
  }

  /**
   * Keys by index, and the position of the view after they were read: should Redis lose writes before, it shows that.
   * No keys without queries, and where an index alone has more than `most`.
   */
  async #keysOf(
    queries: readonly EntryQuery[],
    most: number,
  ): Promise<[keys: string[] | undefined, position: number | undefined]> {
    if (queries.length === 0) return [undefined, await this.position()];
    const read = (): Promise<[string[][], number | undefined]> =>
      Promise.all([Promise.all(queries.map((query) => this.#keysWith(query, most))), this.position()]);
    const [found, position] = await this.#inTurn(read);
    return [found.some(({ length }) => length > most) ? undefined : [...new Set(found.flat())], position];
  }

  /** Keys of the objects with all these index entries; of one entry alone `most` and one more at most. */
  #keysWith(query: EntryQuery, most: number): Promise<string[]> {
    const [only = '', ...others] = query.map((entry) => this.#keys.indexPrefix + entry);
    if (others.length > 0) return this.#redis.sinter(only, ...others);
    // Returns all keys if there are no more than that.
    return this.#redis.srandmember(only, Math.min(most + 1, Number.MAX_SAFE_INTEGER));
  }
}

/** @param text the value of the field `POSITION`. */
export function positionOf(text: string | Buffer | null | undefined): number | undefined {
  return text === null || text === undefined ? undefined : Number(text.toString());
}

/** The objects in an answer that begins with the position. @throws LostWritesError */
function objectsOf([text, ...stored]: (Buffer | null)[], { state, onPosition }: SelectOptions): (Buffer | null)[] {
  onPosition?.(checkedPosition(positionOf(text), state));
  return stored;
}

function checkedPosition(position: number | undefined, state: ReadableState): number {
  if (position === undefined || position < state.position) throw new LostWritesError();
  return position;
}

const atOnce: Pace = (work) => work();

/** Keys of an index that are read and put in order at once. */
const INDEX_KEYS = 5000;
/** Objects read in one round trip. */
const BATCH = 500;
/** Bytes of objects from which on a command waits for its turn. Smaller answers together are small. */
const LARGE_BYTES = 64 * 1024;
/** Time of the thread, in milliseconds, to take one key from an answer of Redis, or to send it. */
const KEY_MS = 0.0005;
/** The same for one object: a command for its size, and a part of the command that reads it. */
const OBJECT_MS = 0.005;

/** Keys of objects that one command reads, and how many bytes they have in Redis. */
interface Part {
  readonly keys: string[];
  bytes: number;
}

function partsOf(keys: readonly string[], sizes: readonly number[], most: number): Part[] {
  const parts: Part[] = [];
  for (const [at, key] of keys.entries()) {
    const size = sizes[at] ?? 0;
    const part = parts.at(-1);
    if (part && part.bytes + size <= most) {
      part.keys.push(key);
      part.bytes += size;
    } else parts.push({ keys: [key], bytes: size });
  }
  return parts;
}

const madeIndexes = (text: string | null | undefined): MadeIndex[] => (text ? (JSON.parse(text) as MadeIndex[]) : []);

/** The selection with the names that objects have in the cache. */
function inCache(selection: Selection): Selection {
  const { fields } = selection;
  if (!fields) return selection;
  const named = fields.map((each) =>
    each.field === 'metadata.name' ? { ...each, value: cachedName(each.value) } : each,
  );
  return { ...selection, fields: named };
}

/** The only key that a selection by name and namespace can have. */
function keyOf({ namespace, fields }: Selection): string | undefined {
  const name = fields?.find(({ field, operator }) => field === 'metadata.name' && operator === '=')?.value;
  return name && namespace !== undefined ? formatObjectKey({ namespace, name }) : undefined;
}

/** Whether the declared index of a selection, if it names one, has all objects that may be selected. */
function isFilled(indexes: readonly MadeIndex[], selection: Selection): boolean {
  const declared = declaredIndexOf(selection);
  return declared === undefined || isMade(indexes, declared, namespaceOfSelection(selection));
}

function found(key: string, json: Buffer): Found {
  let object: KubernetesObject | undefined;
  // Parsing is most of the cost of a read, and a filter has parsed the object already.
  return { key, json, decode: () => (object ??= parseJson(json.toString('utf8')) as KubernetesObject) };
}
