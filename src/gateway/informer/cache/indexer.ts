import { type KubernetesObject, namespaceOfKey, parseJson } from '../../../core/index.ts';
import {
  encodeEntry,
  indexEntriesOf,
  type IndexSpec,
  indexValues,
  KEPT_OUT_INDEX,
  keyRange,
  LEFT_OUT_INDEX,
  madeIn,
  type MadeIndex,
  markCount,
  namespaceOf,
  type ObjectEntry,
  type ViewKeys,
} from '../../../contract/cache-layout.ts';
import { loadScript, type Redis, type Script } from '../../../ground/redis/redis.ts';
import type { ViewWriter } from './view-writer.ts';

/**
 * Processor time for the values of the objects of one namespace, in milliseconds: those in indexes, and observed ones.
 */
export interface IndexTime {
  /** The processor time that may be used now; 0: none. */
  readonly limitMs: number;
  /** Runs work, and charges the time that it takes. */
  run<T>(work: () => T): T;
}

/** JSON that is looked through for the values of all indexes: for less it costs less than the change itself. */
export const LARGE_LENGTH = 32 * 1024;
/** Keys that one command looks at, or returns of a small index: Redis takes less than a millisecond for them. */
const PAGE = 2000;

/**
 * The indexes of one view: SETs of keys, one for each index entry that an object carries. Every view has the built-in
 * indexes; a declared index is complete only after a backfill (`backfill.ts`), and only then do readers ask it. The
 * apply script keeps the SETs in step with the entries that `entryOf` makes. Writes are refused with ForeignWriterError
 * once another gateway has taken the view.
 */
export class Indexer {
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #writer: ViewWriter;
  readonly #reindex: Script;
  readonly #findKeys: Script;
  readonly #onMoved: (keys: readonly string[]) => void;
  readonly #timeOf: (namespace: string) => IndexTime | undefined;
  #maintained: readonly MadeIndex[] = [];

  /**
   * @param onMoved called with the keys of the objects whose entries `move` may have changed.
   * @param timeOf Default: objects may take any time.
   */
  constructor(
    redis: Redis,
    keys: ViewKeys,
    writer: ViewWriter,
    onMoved: (keys: readonly string[]) => void,
    timeOf: (namespace: string) => IndexTime | undefined = () => undefined,
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.#writer = writer;
    this.#onMoved = onMoved;
    this.#timeOf = timeOf;
    this.#reindex = loadScript(redis, import.meta.url, 'reindex');
    this.#findKeys = loadScript(redis, import.meta.url, 'find-keys');
  }

  /** Sets the declared indexes in which the objects stand that are written from now on. */
  maintain(made: readonly MadeIndex[]): void {
    this.#maintained = made;
  }

  /**
   * The index entries of an object. A large one pays for finding its values with the time of its namespace, and of its
   * kind if it has none; when that is used up, it has no values in the indexes that are left, and readers look at it.
   * @param length of its JSON. Default: it counts as large.
   */
  indexEntriesOf(object: KubernetesObject, made: readonly MadeIndex[], length = Infinity): string[] {
    const { namespace } = object.metadata;
    const specs = madeIn(made, namespace);
    const isLarge = length * specs.filter(isLong).length > LARGE_LENGTH;
    const time = isLarge ? this.#timeOf(namespace ?? '') : undefined;
    if (!time) return indexEntriesOf(object, specs);
    return indexEntriesOf(object, specs, (_, spec) => {
      if (!isLong(spec)) return indexValues(object, spec);
      return time.limitMs === 0 ? undefined : time.run(() => indexValues(object, spec));
    });
  }

  /**
   * The entry with which an object is written.
   * @param marks indexes that say why it is kept out. Default: it is not.
   */
  entryOf(object: KubernetesObject, marks: readonly string[] = [], length?: number): ObjectEntry {
    const { resourceVersion, uid, deletionTimestamp } = object.metadata;
    const indexEntries = this.indexEntriesOf(object, this.#maintained, length);
    return {
      resourceVersion,
      uid,
      terminating: deletionTimestamp !== undefined,
      indexEntries: [...indexEntries, ...marks],
    };
  }

  /**
   * Keys of the objects that carry all these index entries, and at least one of `anyOf` if that names any; of all
   * objects when there are none. Takes one trip if one of the indexes is small. Otherwise it looks at the keys of the
   * namespace, or of the view, page by page, because a tenant decides how many there are: the result has each key that
   * carries the entries throughout, and may lack others.
   * @param onPage called with the number of keys of each page before the next one is read. It may throw, to end the
   *   read.
   */
  async keysWith(
    entries: readonly string[],
    { anyOf = [], onPage }: { readonly anyOf?: readonly string[]; readonly onPage?: (count: number) => void } = {},
  ): Promise<string[]> {
    const queries = anyOf.length === 0 ? [entries] : anyOf.map((entry) => [...entries, entry]);
    // Sent together, in one trip.
    const first = await Promise.all(queries.map((query) => this.#page(query)));
    const found = new Set<string>();
    for (const [at, query] of queries.entries()) {
      let page = first[at];
      while (page) {
        for (const key of page.keys) found.add(key);
        onPage?.(page.keys.length);
        // Everything else of this thread has a turn during the trip.
        page = page.last === '' ? undefined : await this.#page(query, page.last);
      }
    }
    return [...found];
  }

  /** @param after the last key of the page before. Default: it is the first, and has all keys if an index is small. */
  async #page(entries: readonly string[], after = ''): Promise<{ last: string; keys: readonly string[] }> {
    const { order, indexPrefix } = this.#keys;
    const sets = entries.map((entry) => indexPrefix + entry);
    const small = after === '' ? PAGE : 0;
    const args = [...keyRange(namespaceOf(entries), after), small, PAGE];
    const [last, keys] = (await this.#findKeys([order, ...sets], args)) as [string, string[]];
    return { last, keys };
  }

  /**
   * How many objects are kept out of the cache. Takes one command however many they are: the view counts them.
   * @param namespaces count in these alone
   * @param index count only those for want of memory. Default: for any reason.
   */
  async keptOutCount(namespaces?: readonly string[], index = KEPT_OUT_INDEX): Promise<number> {
    if (namespaces === undefined) return this.#redis.scard(this.#keys.indexPrefix + index);
    if (namespaces.length === 0) return 0;
    const counts = await this.#redis.hmget(this.#keys.view, ...namespaces.map((each) => markCount(index, each)));
    return counts.reduce((sum, count) => sum + Number(count ?? 0), 0);
  }

  /** The namespaces that have objects which are kept out for want of memory; '' for objects of the cluster. */
  async leftOutNamespaces(): Promise<string[]> {
    const counts = await this.#counts(LEFT_OUT_INDEX);
    return [...counts].flatMap(([namespace, count]) => (count > 0 ? [namespace] : []));
  }

  /**
   * Counts the marks of each namespace anew if the counts do not agree with the indexes: another build has written
   * some. For a view that this gateway has taken, before its first write.
   * @throws ForeignWriterError
   */
  async recount(): Promise<void> {
    for (const index of [KEPT_OUT_INDEX, LEFT_OUT_INDEX]) {
      const set = this.#keys.indexPrefix + index;
      const known = await this.#counts(index);
      const sum = [...known.values()].reduce((all, count) => all + count, 0);
      if (sum === (await this.#redis.scard(set))) continue;
      const seen = new Set<string>();
      const pages = this.#redis.sscanStream(set, { count: PAGE });
      for await (const keys of pages as AsyncIterable<string[]>) for (const key of keys) seen.add(key);
      const counts = new Map([...known.keys()].map((namespace) => [namespace, 0]));
      for (const key of seen) {
        const namespace = namespaceOfKey(key) ?? '';
        counts.set(namespace, (counts.get(namespace) ?? 0) + 1);
      }
      const fields = [...counts].map(([namespace, count]) => [markCount(index, namespace), String(count)] as const);
      for (let from = 0; from < fields.length; from += PAGE) {
        await this.#writer.set(Object.fromEntries(fields.slice(from, from + PAGE)));
      }
    }
  }

  /** How many objects are in an index of marks, by namespace. */
  async #counts(index: string): Promise<Map<string, number>> {
    const counts = new Map<string, number>();
    const start = markCount(index, '');
    const pages = this.#redis.hscanStream(this.#keys.view, { match: `${start}*`, count: PAGE });
    for await (const pairs of pages as AsyncIterable<string[]>) {
      for (let at = 0; at < pairs.length; at += 2) {
        counts.set((pairs[at] ?? '').slice(start.length), Number(pairs[at + 1]));
      }
    }
    return counts;
  }

  /** The declared indexes that are complete. */
  async complete(): Promise<MadeIndex[]> {
    const text = await this.#redis.hget(this.#keys.view, 'indexes');
    return text === null ? [] : (parseJson(text) as MadeIndex[]);
  }

  /** Declared indexes that objects may stand in though they are not complete: being filled, or withdrawn. */
  async incomplete(): Promise<MadeIndex[]> {
    const text = await this.#redis.hget(this.#keys.view, 'filling');
    return text ? (parseJson(text) as MadeIndex[]) : [];
  }

  /** Records which declared indexes are complete, and which are not (see `incomplete`). @throws ForeignWriterError */
  async record(complete: readonly MadeIndex[], incomplete: readonly MadeIndex[] = []): Promise<void> {
    const filling = incomplete.length === 0 ? '' : JSON.stringify(incomplete);
    await this.#writer.set({ indexes: JSON.stringify(complete), filling });
  }

  /**
   * Puts objects under the indexes of `to`, each unless it has changed since its entry `from` was read.
   * @throws ForeignWriterError
   */
  async move(moves: readonly { key: string; from: ObjectEntry; to: ObjectEntry }[]): Promise<void> {
    if (moves.length === 0) return;
    const args = moves.flatMap(({ key, from, to }) => [key, encodeEntry(from), encodeEntry(to)]);
    await this.#writer.run(this.#reindex, [this.#keys.entries], [this.#keys.indexPrefix, ...args]);
    this.#onMoved(moves.map(({ key }) => key));
  }
}

/** Whether a tenant can make the values of an index many: the others are one value each. */
function isLong(spec: IndexSpec): boolean {
  return spec === 'labels' || spec.startsWith('field:');
}
