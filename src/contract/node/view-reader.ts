import { formatObjectKey, type KubernetesObject, type ResourceVersion, isResourceVersion } from '../../core/index.ts';
import type { IndexSpec, ViewKeys } from '../cache-layout.ts';
import { viewKeys } from '../cache-layout.ts';
import { indexesOf, isSelected, type Selection } from '../selection.ts';
import { ObjectCodec } from './codec.ts';

/** The commands of a Redis connection that reading needs: ioredis' Redis has them. */
export interface ViewCommands {
  hgetBuffer(key: string, field: string): Promise<Buffer | null>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  hmgetBuffer(key: string, ...fields: string[]): Promise<(Buffer | null)[]>;
  smembers(key: string): Promise<string[]>;
  sinter(...keys: string[]): Promise<string[]>;
  zrangebylex(key: string, min: string, max: string, limit: 'LIMIT', offset: number, count: number): Promise<string[]>;
  zlexcount(key: string, min: string, max: string): Promise<number>;
}

/** What a view says of itself. */
export interface ReadableState {
  /** Up to which the view is complete. */
  readonly version: ResourceVersion;
  readonly incarnation: string;
  /** The declared indexes that are complete. */
  readonly indexes: readonly IndexSpec[];
  /** Keys of the selection by index, as they were just after; undefined when no index says which they are. */
  readonly keys: readonly string[] | undefined;
}

/** One object as it was found. */
export interface Found {
  /** `namespace/name`, or `name`. */
  readonly key: string;
  /** Its JSON. */
  readonly json: string;
  /** The object, which belongs to whoever has found it. */
  readonly decode: () => KubernetesObject;
}

/**
 * Reads one view in Redis, for the gateway and for functions close to Redis. Every object is at least as new as the version
 * read before it. What is found is no snapshot: objects may be of different moments. One that no longer belongs to the
 * selection when it is read is left out, and each that belonged to it throughout is found exactly once.
 */
export class ViewReader {
  readonly #redis: ViewCommands;
  readonly #keys: ViewKeys;
  readonly #codec: Pick<ObjectCodec, 'decode'>;

  /**
   * @param prefix of the view's keys.
   * @param codec of the view. Default: one without keys, which reads no encrypted view.
   */
  constructor(redis: ViewCommands, prefix: string, codec: Pick<ObjectCodec, 'decode'> = new ObjectCodec({ prefix })) {
    this.#redis = redis;
    this.#keys = viewKeys(prefix);
    this.#codec = codec;
  }

  /**
   * What the view says of itself, undefined until it is complete for the first time and while it is a mixture of two pasts;
   * and in the same trip the keys that belong to a selection, when there is an index for it.
   */
  async state(selection: Selection = {}): Promise<ReadableState | undefined> {
    const [fields, keys] = await Promise.all([
      // Sent first, so answered first: the keys are not older than the version.
      this.#redis.hmget(this.#keys.view, 'version', 'incarnation', 'indexes', 'backwards'),
      this.#indexed(selection, true),
    ]);
    const [version, incarnation, text, backwards] = fields;
    if (!isResourceVersion(version) || backwards === '1') return undefined;
    const indexes = text ? (JSON.parse(text) as IndexSpec[]) : [];
    const filled = selection.index === undefined || indexes.includes(selection.index.spec);
    return {
      version,
      incarnation: incarnation ?? '',
      indexes,
      // An index that is still being filled is no help in finding keys.
      keys: filled ? keys : await this.#indexed(selection, false),
    };
  }

  /** @throws UnreadableObjectError, as does `select`. */
  async get(key: string): Promise<Found | undefined> {
    const stored = await this.#redis.hgetBuffer(this.#keys.objects, key);
    return stored === null ? undefined : found(key, this.#codec.decode(key, stored));
  }

  /**
   * The selected objects in the order of their keys, in batches, from behind `after`.
   * @param state as read before, for this selection.
   * @param first size of the first batch, when fewer than a whole one are wanted.
   */
  async *select(
    selection: Selection,
    { state, after = '', first = BATCH }: { state: ReadableState; after?: string; first?: number },
  ): AsyncGenerator<Found[]> {
    for await (const keys of this.#candidates(selection, state, after, first)) {
      if (keys.length === 0) continue;
      const stored = await this.#redis.hmgetBuffer(this.#keys.objects, ...keys);
      // A key's namespace never changes: what is selected by nothing else needs no second look.
      const { namespace: _, ...conditions } = selection;
      const certain = Object.keys(conditions).length === 0;
      yield keys.flatMap((key, at) => {
        const bytes = stored[at];
        // Deleted between the trips.
        if (!bytes) return [];
        const object = found(key, this.#codec.decode(key, bytes));
        return certain || isSelected(object.decode(), selection) ? [object] : [];
      });
    }
  }

  /** How many objects may be selected, at most; exactly so many when nothing but a namespace is asked for. */
  async count(selection: Selection, state: ReadableState, after = ''): Promise<number> {
    if (state.keys) return state.keys.filter((key) => key > after).length;
    const [min, max] = range(selection.namespace, after);
    return this.#redis.zlexcount(this.#keys.order, min, max);
  }

  async *#candidates(
    selection: Selection,
    state: ReadableState,
    after: string,
    first: number,
  ): AsyncGenerator<string[]> {
    if (state.keys) {
      const keys = state.keys.filter((key) => key > after).toSorted();
      for (let from = 0; from < keys.length; from += BATCH) yield keys.slice(from, from + BATCH);
      return;
    }
    let size = Math.min(first, BATCH);
    let [min] = range(selection.namespace, after);
    const [, max] = range(selection.namespace, after);
    for (;;) {
      const keys = await this.#redis.zrangebylex(this.#keys.order, min, max, 'LIMIT', 0, size);
      yield keys;
      if (keys.length < size) return;
      min = `(${keys.at(-1)}`;
      size = BATCH;
    }
  }

  /** Keys by index, or by name; undefined when all of the namespace must be looked at. */
  async #indexed(selection: Selection, declaredToo: boolean): Promise<string[] | undefined> {
    const name = selection.fields?.find(({ field, operator }) => field === 'metadata.name' && operator === '=');
    if (name && name.value && selection.namespace !== undefined) {
      return [formatObjectKey({ namespace: selection.namespace, name: name.value })];
    }
    const { always, declared } = indexesOf(selection);
    const sets = (declaredToo ? [...always, ...declared] : always).map((entry) => this.#keys.indexPrefix + entry);
    const [only] = sets;
    if (only === undefined) return undefined;
    return sets.length === 1 ? this.#redis.smembers(only) : this.#redis.sinter(...sets);
  }
}

/** Objects read in one trip. */
const BATCH = 500;

/** The range of keys of a namespace behind `after`: "0" is the character that follows "/". */
function range(namespace: string | undefined, after: string): [string, string] {
  const start = namespace === undefined ? '' : `${namespace}/`;
  const min = after >= start && after !== '' ? `(${after}` : start === '' ? '-' : `[${start}`;
  return [min, namespace === undefined ? '+' : `(${namespace}0`];
}

function found(key: string, json: string): Found {
  let object: KubernetesObject | undefined;
  // Parsing is most of what a read costs: whoever had to look at it has done that already.
  return { key, json, decode: () => (object ??= JSON.parse(json) as KubernetesObject) };
}
