import { type KubernetesObject, namespaceOfKey } from '../../../core/index.ts';
import { madeIn, type MadeIndex, namespaceIndex, parseMade, type ViewKeys } from '../../../contract/cache-layout.ts';
import { hasItems, observedAtMs, observedItems, observedValue } from '../../../contract/observed.ts';
import { loadScript, type Redis, type Script } from '../../../ground/redis/redis.ts';
import { createHash } from 'node:crypto';
import { type IndexTime, LARGE_LENGTH } from './indexer.ts';
import type { ViewWriter } from './view-writer.ts';

/** Characters of an observed value that cost as much as a short one: Lua compares its items one by one. */
export const CHARACTERS_OF_ENTRY = 40;
/** Longer values are stored as their hash. */
const MAX_VALUE = 64;
/** Short values that one script compares, because a large script blocks Redis. */
const PAGE_VALUES = 1000;

/** An observed field as the bounds of indexes count it. */
const SPEC_PREFIX = 'field:';
export const observedSpec = (field: string): `field:${string}` => `${SPEC_PREFIX}${field}`;
const fieldOf = (spec: string): string => spec.slice(SPEC_PREFIX.length);
/** The fields of a list, each once. */
export const observedFields = (made: readonly MadeIndex[]): string[] => [
  ...new Set(made.map((each) => fieldOf(parseMade(each).spec))),
];

/** The memory that the time of a value takes in Redis, about, and the most that the times of a list's items take. */
const TIME_BYTES = 200;
const ITEMS_BYTES = 3000;

/** The values of an object's observed fields, by field. */
export type ObservedValues = Readonly<Record<string, string>>;

/**
 * Since when the values of observed fields are unchanged: for each field a HASH of the view, object key -> time, UID
 * and value, or the items of a list with a time for each. The apply script keeps it in step with the objects, for the
 * fields that are maintained.
 */
export class Observations {
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #writer: ViewWriter;
  readonly #observe: Script;
  readonly #forget: Script;
  readonly #timeOf: (namespace: string) => IndexTime | undefined;
  #made: readonly MadeIndex[] = [];
  #now: () => number = () => 0;

  /** @param timeOf Default: objects may take any time. */
  constructor(
    redis: Redis,
    keys: ViewKeys,
    writer: ViewWriter,
    timeOf: (namespace: string) => IndexTime | undefined = () => undefined,
  ) {
    this.#timeOf = timeOf;
    this.#redis = redis;
    this.#keys = keys;
    this.#writer = writer;
    this.#observe = loadScript(redis, import.meta.url, 'observe');
    this.#forget = loadScript(redis, import.meta.url, 'forget-observed');
  }

  /**
   * Sets the fields whose values are recorded with the objects that are written from now on: with all, or with those
   * of one namespace.
   * @param now the gateways' time, in milliseconds.
   */
  maintain(made: readonly MadeIndex[], now: () => number): void {
    this.#made = made;
    this.#now = now;
  }

  /** About how many bytes the times of one object of the namespace take. @param namespace '': of the cluster */
  bytesIn(namespace: string): number {
    const fields = madeIn(this.#made, namespace || undefined).map(fieldOf);
    return fields.reduce((sum, field) => sum + (hasItems(field) ? ITEMS_BYTES : TIME_BYTES), 0);
  }

  /**
   * The values with which an object is written; undefined when no field of it is observed. A large object pays for them
   * with the time of its namespace; when that is used up, the fields that are left count as changed with each version,
   * and the items of a list have no times.
   * @param length of its JSON; Infinity: it is not known.
   * @param passed the fields of a pass over the view, which leaves those without time as they are. Default: the fields
   *   that are maintained.
   */
  valuesOf(object: KubernetesObject, length: number, passed?: readonly MadeIndex[]): ObservedValues | undefined {
    const { namespace, uid, resourceVersion } = object.metadata;
    const fields = madeIn(passed ?? this.#made, namespace).map(fieldOf);
    if (fields.length === 0) return undefined;
    const isLarge = length * fields.length > LARGE_LENGTH;
    const time = isLarge ? this.#timeOf(namespace ?? '') : undefined;
    const read = (field: string): string => {
      const items = observedItems(object, field);
      return items ? [uid, ...items].join('\n') : `${uid} ${shortened(observedValue(object, field))}`;
    };
    const valueOf = (field: string): string => {
      if (!time) return read(field);
      if (time.limitMs > 0) return time.run(() => read(field));
      return passed ? '' : hasItems(field) ? uid : `${uid} ${resourceVersion}`;
    };
    return Object.fromEntries(fields.map((field) => [field, valueOf(field)]));
  }

  /**
   * The last arguments of the apply script.
   * @param written the values of each object that the chunk writes, in order.
   */
  arguments(written: readonly (ObservedValues | undefined)[]): (string | number)[] {
    const fields = observedFields(this.#made);
    if (fields.length === 0) return [0];
    const args: (string | number)[] = [fields.length, this.#time()];
    for (const field of fields) {
      // Without a value the field is not observed in the object's namespace, or was not when the object was decoded:
      // the pass over the view finds that one.
      args.push(this.#keys.observedPrefix + field, ...written.map((values) => values?.[field] ?? ''));
    }
    return args;
  }

  /** Whether each object that a field is observed of has a time, and no other has. */
  async isComplete(field: string): Promise<boolean> {
    const hash = this.#keys.observedPrefix + field;
    const places = this.#placesOf(field);
    const indexes = places?.map((each) => this.#keys.indexPrefix + namespaceIndex(each));
    const counts = indexes?.map((index) => this.#redis.scard(index)) ?? [this.#redis.hlen(this.#keys.entries)];
    const [times, ...objects] = await Promise.all([this.#redis.hlen(hash), ...counts]);
    return times === objects.reduce((sum, each) => sum + each, 0);
  }

  /** The only namespaces in which the field is observed; undefined: it is in all. */
  #placesOf(field: string): string[] | undefined {
    const parsed = this.#made.map(parseMade).filter(({ spec }) => spec === observedSpec(field));
    if (parsed.some(({ place }) => place === undefined)) return undefined;
    return parsed.flatMap(({ place }) => place ?? []);
  }

  /**
   * Gives the present time to each of these objects whose value is not the recorded one, unless the object has changed
   * since it was read. @throws ForeignWriterError
   */
  async record(objects: readonly { key: string; version: string; values: ObservedValues }[]): Promise<void> {
    if (objects.length === 0) return;
    const fields = observedFields(this.#made);
    for (let from = 0; from < objects.length;) {
      const args: (string | number)[] = [this.#time(), fields.length, ...fields];
      for (let left = PAGE_VALUES; left > 0 && from < objects.length; from += 1) {
        const { key = '', version = '', values = {} } = objects[from] ?? {};
        const texts = fields.map((field) => values[field] ?? '');
        args.push(key, version, ...texts);
        left -= texts.reduce((sum, { length }) => sum + 1 + length / CHARACTERS_OF_ENTRY, 0);
      }
      await this.#writer.run(this.#observe, [this.#keys.entries], [this.#keys.observedPrefix, ...args]);
    }
  }

  /**
   * Removes the times of a field where it is observed no longer: a value that comes back later would look older than it
   * is. @throws ForeignWriterError
   */
  async forget(field: string): Promise<void> {
    const places = this.#placesOf(field);
    if (places === undefined || places.length > 0) return this.removeOthers(field);
    await this.#writer.run(this.#forget, [this.#keys.observedPrefix + field], []);
  }

  /**
   * Removes the times of objects whose field is not observed, and of objects that the view no longer has, which an
   * earlier writer did not know to remove.
   */
  async removeOthers(field: string): Promise<void> {
    const places = this.#placesOf(field);
    const isObserved = (key: string): boolean => places?.includes(namespaceOfKey(key) ?? '') ?? true;
    const hash = this.#keys.observedPrefix + field;
    let cursor = '0';
    do {
      const [next, found] = await this.#redis.hscan(hash, cursor, 'COUNT', 500);
      cursor = next;
      const keys = found.filter((_, at) => at % 2 === 0);
      if (keys.length === 0) continue;
      // No entries: those of a tenant may be long.
      const exist = await Promise.all(keys.map((key) => this.#redis.hexists(this.#keys.entries, key)));
      const others = keys.filter((key, at) => exist[at] === 0 || !isObserved(key));
      // An object that comes back during the pass begins anew at the next pass.
      if (others.length > 0) await this.#redis.hdel(hash, ...others);
    } while (cursor !== '0');
  }

  /**
   * For how many seconds the value of the field is unchanged; undefined while that is unknown.
   * @param item an item of the list, as `observedItem` names it: for how many seconds it has been in the list.
   */
  async secondsUnchanged(key: string, field: string, nowMs: number, item?: string): Promise<number | undefined> {
    const stored = await this.#redis.hget(this.#keys.observedPrefix + field, key);
    const sinceMs = stored === null ? undefined : observedAtMs(stored, item);
    return sinceMs === undefined ? undefined : Math.max(0, nowMs - sinceMs) / 1000;
  }

  #time(): number {
    return Math.round(this.#now());
  }
}

function shortened(value: string): string {
  return value.length <= MAX_VALUE ? value : createHash('sha256').update(value).digest('base64url');
}
