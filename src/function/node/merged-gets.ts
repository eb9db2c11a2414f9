import type { Redis } from 'ioredis';
import { POSITION, viewKeys } from '../../contract/cache-layout.ts';
import { positionOf, type ViewEntry } from '../../contract/node/view-reader.ts';

/** The most objects in one command, so that Redis can serve others in between. */
const MAX_KEYS = 100;

/**
 * Gets single objects over one connection. Gets of one view in the same turn of the event loop, as from the runs of a
 * batch, share one command.
 */
export class MergedGets {
  readonly #redis: Redis;
  /** By the view's prefix. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** The instance for a connection. */
  static of(redis: Redis): MergedGets {
    let gets = ofConnections.get(redis);
    if (!gets) ofConnections.set(redis, (gets = new MergedGets(redis)));
    return gets;
  }

  /** @param key `namespace/name`, or `name`. @throws the error of Redis */
  async get(prefix: string, key: string): Promise<ViewEntry> {
    let waiting = this.#waiting.get(prefix);
    if (!waiting || waiting.keys.length >= MAX_KEYS) {
      const keys: string[] = [];
      waiting = { keys, answer: this.#read(prefix, keys) };
      this.#waiting.set(prefix, waiting);
    }
    const at = waiting.keys.push(key);
    const answer = await waiting.answer;
    return { position: positionOf(answer[0]), stored: answer[at] ?? null };
  }

  async #read(prefix: string, keys: readonly string[]): Promise<Answer> {
    // Waits for all promises that are settled now.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    if (this.#waiting.get(prefix)?.keys === keys) this.#waiting.delete(prefix);
    return this.#redis.hmgetBuffer(viewKeys(prefix).objects, POSITION, ...keys);
  }
}

/** The view's position, then the objects in the order of their keys. */
type Answer = readonly (Buffer | null)[];

interface Waiting {
  readonly keys: string[];
  readonly answer: Promise<Answer>;
}

const ofConnections = new WeakMap<Redis, MergedGets>();
