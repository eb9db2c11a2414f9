import type { Redis } from 'ioredis';
import { viewKeys } from '../../contract/cache-layout.ts';
import { isComplete } from '../../contract/node/view-reader.ts';

/** What one look at a view has shown. */
export interface Look {
  /** The view was complete before the object was read, so the object is at least as new as the view's version then. */
  readonly isComplete: boolean;
  /** Null when the view has no such object. */
  readonly stored: Buffer | null;
}

/** The most objects in one command, so that Redis serves others in between. */
const MOST = 100;

/**
 * Gets of single objects over one connection. Those of one view that are asked for in the same turn of the event loop,
 * as the runs of a batch do, share one question for the view's state and one command for the objects.
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
  async get(prefix: string, key: string): Promise<Look> {
    let waiting = this.#waiting.get(prefix);
    if (!waiting || waiting.keys.length >= MOST) {
      const keys: string[] = [];
      waiting = { keys, looks: this.#later(prefix, keys) };
      this.#waiting.set(prefix, waiting);
    }
    const at = waiting.keys.push(key) - 1;
    const { isComplete: complete, stored } = await waiting.looks;
    return { isComplete: complete, stored: stored[at] ?? null };
  }

  async #later(prefix: string, keys: readonly string[]): Promise<Looks> {
    // Behind all promises that are settled now.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    if (this.#waiting.get(prefix)?.keys === keys) this.#waiting.delete(prefix);
    const { view, objects } = viewKeys(prefix);
    // The state is sent first, so it is read first: the objects are not older than it. No pipeline of ioredis, which
    // takes more time than it saves.
    const [[version, rewound], stored] = await Promise.all([
      this.#redis.hmget(view, 'version', 'rewound'),
      this.#redis.hmgetBuffer(objects, ...keys),
    ]);
    return { isComplete: isComplete(version, rewound), stored };
  }
}

interface Looks {
  readonly isComplete: boolean;
  readonly stored: readonly (Buffer | null)[];
}

interface Waiting {
  readonly keys: string[];
  readonly looks: Promise<Looks>;
}

const ofConnections = new WeakMap<Redis, MergedGets>();
