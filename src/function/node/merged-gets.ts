import type { Redis } from 'ioredis';
import { COMPLETE, viewKeys } from '../../contract/cache-layout.ts';

/** An object as a view had it at one moment. */
export interface ReadObject {
  /**
   * The view was complete at that moment. False also for a view that an earlier release wrote, which does not say so
   * beside its objects.
   */
  readonly isComplete: boolean;
  /** Null when the view had no such object. */
  readonly stored: Buffer | null;
}

/** The most objects in one command, so that Redis serves others in between. */
const MAX_KEYS = 100;

/**
 * Gets single objects over one connection, with one command. Gets of one view that are asked for in the same turn of
 * the event loop, as the runs of a batch do, share the command.
 */
export class MergedGets {
  readonly #redis: Redis;
  /** By the view's prefix. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** The one of a connection. */
  static of(redis: Redis): MergedGets {
    let gets = ofConnections.get(redis);
    if (!gets) ofConnections.set(redis, (gets = new MergedGets(redis)));
    return gets;
  }

  /** @param key `namespace/name`, or `name`. @throws the error of Redis */
  async get(prefix: string, key: string): Promise<ReadObject> {
    let waiting = this.#waiting.get(prefix);
    if (!waiting || waiting.keys.length >= MAX_KEYS) {
      const keys: string[] = [];
      waiting = { keys, answer: this.#read(prefix, keys) };
      this.#waiting.set(prefix, waiting);
    }
    const at = waiting.keys.push(key);
    const answer = await waiting.answer;
    return { isComplete: Boolean(answer[0]), stored: answer[at] ?? null };
  }

  async #read(prefix: string, keys: readonly string[]): Promise<Answer> {
    // Behind all promises that are settled now.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    if (this.#waiting.get(prefix)?.keys === keys) this.#waiting.delete(prefix);
    return this.#redis.hmgetBuffer(viewKeys(prefix).objects, COMPLETE, ...keys);
  }
}

/** What is stored under `COMPLETE`, then the objects in the order of their keys. */
type Answer = readonly (Buffer | null)[];

interface Waiting {
  readonly keys: string[];
  readonly answer: Promise<Answer>;
}

const ofConnections = new WeakMap<Redis, MergedGets>();
