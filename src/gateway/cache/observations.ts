import type { KubernetesObject } from '../../core/index.ts';
import type { ViewKeys } from '../../contract/cache-layout.ts';
import { observedAtMs, observedValue } from '../../contract/observed.ts';
import { loadScript, type Redis, type Script } from '../redis/redis.ts';
import { createHash } from 'node:crypto';
import type { ViewWriter } from './view-writer.ts';

/** Longer values are stored as their hash. */
const MAX_VALUE = 64;
/** Values that one script compares, because a large script blocks Redis. */
const PAGE_VALUES = 1000;

/** The values of an object's observed fields, by field. */
export type ObservedValues = Readonly<Record<string, string>>;

/**
 * Since when the values of observed fields are unchanged: for each field a HASH of the view, object key -> time, UID
 * and value. The apply script keeps it in step with the objects, for the fields that are maintained.
 */
export class Observations {
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #writer: ViewWriter;
  readonly #observe: Script;
  readonly #forget: Script;
  #fields: readonly string[] = [];
  #now: () => number = () => 0;

  constructor(redis: Redis, keys: ViewKeys, writer: ViewWriter) {
    this.#redis = redis;
    this.#keys = keys;
    this.#writer = writer;
    this.#observe = loadScript(redis, import.meta.url, 'observe');
    this.#forget = loadScript(redis, import.meta.url, 'forget-observed');
  }

  /**
   * Sets the fields whose values are recorded with every object that is written from now on.
   * @param now the gateways' time, in milliseconds.
   */
  maintain(fields: readonly string[], now: () => number): void {
    this.#fields = fields;
    this.#now = now;
  }

  /** The values with which an object is written; undefined when no field is observed. */
  valuesOf(object: KubernetesObject, fields = this.#fields): ObservedValues | undefined {
    if (fields.length === 0) return undefined;
    const { uid } = object.metadata;
    return Object.fromEntries(fields.map((field) => [field, `${uid} ${shortened(observedValue(object, field))}`]));
  }

  /**
   * The last arguments of the apply script.
   * @param written the values of each object that the chunk writes, in order.
   */
  arguments(written: readonly (ObservedValues | undefined)[]): (string | number)[] {
    const fields = this.#fields;
    if (fields.length === 0) return [0];
    const args: (string | number)[] = [fields.length, this.#time()];
    for (const field of fields) {
      // Without a value the object was decoded before the field was observed: the pass over the view finds it.
      args.push(this.#keys.observedPrefix + field, ...written.map((values) => values?.[field] ?? ''));
    }
    return args;
  }

  /** Whether each object of the view has a time for this field. */
  async isComplete(field: string): Promise<boolean> {
    const hash = this.#keys.observedPrefix + field;
    const [times, objects] = await Promise.all([this.#redis.hlen(hash), this.#redis.hlen(this.#keys.entries)]);
    return times === objects;
  }

  /**
   * Gives the present time to each of these objects whose value is not the recorded one, unless the object has changed
   * since it was read. @throws ForeignWriterError
   */
  async record(objects: readonly { key: string; version: string; values: ObservedValues }[]): Promise<void> {
    if (objects.length === 0) return;
    const fields = this.#fields;
    const page = Math.max(1, Math.floor(PAGE_VALUES / Math.max(1, fields.length)));
    for (let from = 0; from < objects.length; from += page) {
      const args: (string | number)[] = [this.#time(), fields.length, ...fields];
      for (const { key, version, values } of objects.slice(from, from + page)) {
        args.push(key, version, ...fields.map((field) => values[field] ?? ''));
      }
      await this.#writer.run(this.#observe, [this.#keys.entries], [this.#keys.observedPrefix, ...args]);
    }
  }

  /** Removes the times of a field that is observed no longer. @throws ForeignWriterError */
  async forget(field: string): Promise<void> {
    await this.#writer.run(this.#forget, [this.#keys.observedPrefix + field], []);
  }

  /** Removes the times of objects that the view no longer has, which an earlier writer did not know to remove. */
  async removeAbsent(field: string): Promise<void> {
    const hash = this.#keys.observedPrefix + field;
    let cursor = '0';
    do {
      const [next, found] = await this.#redis.hscan(hash, cursor, 'COUNT', 500);
      cursor = next;
      const keys = found.filter((_, at) => at % 2 === 0);
      if (keys.length === 0) continue;
      const entries = await this.#redis.hmget(this.#keys.entries, ...keys);
      const absent = keys.filter((_, at) => entries[at] === null);
      // An object that comes back meanwhile begins anew at the next pass.
      if (absent.length > 0) await this.#redis.hdel(hash, ...absent);
    } while (cursor !== '0');
  }

  /** For how many seconds the value of the field is unchanged. Undefined when that is not known yet. */
  async secondsUnchanged(key: string, field: string, nowMs: number): Promise<number | undefined> {
    const stored = await this.#redis.hget(this.#keys.observedPrefix + field, key);
    return stored === null ? undefined : Math.max(0, nowMs - observedAtMs(stored)) / 1000;
  }

  #time(): number {
    return Math.round(this.#now());
  }
}

function shortened(value: string): string {
  return value.length <= MAX_VALUE ? value : createHash('sha256').update(value).digest('base64url');
}
