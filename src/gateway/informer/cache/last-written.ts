import { NewestMap, type ResourceVersion } from '../../../core/index.ts';
import { decodeEntry, type ObjectEntry } from '../../../contract/cache-layout.ts';
import { connectionLosses, type Redis } from '../../../ground/redis/redis.ts';
import type { Chunk } from './chunk.ts';

/** The fields of a view's HASH. */
export interface ViewState {
  /** The view contains every change up to this version; undefined until its first list is complete. */
  readonly version: ResourceVersion | undefined;
  /**
   * The view shows all that the server had at this time, by the gateways' clock: when the last applied line of its
   * watch was read, when its last list began, or when the server was asked for its version and the view had it. The
   * network's delay is left out. Undefined without a version.
   */
  readonly shownMs: number | undefined;
  /** Identifies the contents of the view: with another incarnation, every object in it may have changed. */
  readonly incarnation: string | undefined;
  /** The Redis process that got the last writes: another process may have lost them. */
  readonly runId: string | undefined;
  /** A list of rewound data has begun and not ended, so the view is a mixture of two states. */
  readonly rewound: boolean;
  /** False while the server is known not to serve the resource, so no events arrive. */
  readonly isServed: boolean;
  /** The gateway that may write to the view; undefined when Redis has lost the ID. */
  readonly writerId: string | undefined;
}

/** Entries that are remembered, about 200 bytes each: enough for the objects that change often. */
const MAX_ENTRIES = 2000;
/** A longer entry is not remembered. */
const MAX_CHARACTERS = 2000;
/** Recovery reads the state of each view once a second. Without an answer for two seconds, Redis is asked again. */
const TRUSTED_MS = 2000;

/**
 * A write-through cache of one view, in the gateway that writes it: the view's state and the entries that the gateway
 * wrote last. Only the writer changes a view, so these values are those in Redis while three conditions hold: the
 * connection was not lost, no write has failed, and Redis has answered a write or a read of the state within the last
 * two seconds. Otherwise the values are dropped, and the caller asks Redis.
 */
export class LastWritten {
  readonly #redis: Redis;
  #losses = 0;
  #known = new KnownView();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Where the answer of a command is recorded. Take it before you send the command: after a lost connection or a
   * `forget` in between, the answer may be outdated, and recording it here has no effect.
   */
  get current(): KnownView {
    const losses = connectionLosses(this.#redis);
    const isOld = performance.now() - this.#known.confirmedAtMs > TRUSTED_MS;
    if (losses !== this.#losses || isOld) this.forget();
    this.#losses = losses;
    return this.#known;
  }

  /** The values that may be used without asking Redis; undefined while there is no connection. */
  get trusted(): KnownView | undefined {
    return this.#redis.status === 'ready' ? this.current : undefined;
  }

  /** Drops all values. Called when a write has failed, or another script may have changed the view. */
  forget(): void {
    this.#known = new KnownView();
  }
}

/** The values from the answers of one connection, without a failure in between. */
export class KnownView {
  /** Undefined until `recordState`. */
  state: ViewState | undefined;
  /** When Redis answered last; before the first answer, when this object was created. */
  confirmedAtMs = performance.now();
  /** Encoded entries by key, in the order of their writes; undefined for an object that the view does not have. */
  readonly #entries = new NewestMap<string, string | undefined>(MAX_ENTRIES);

  /** Records a state that was read from Redis. */
  recordState(state: ViewState): void {
    this.state = state;
    this.confirmedAtMs = performance.now();
  }

  /** Records a new `ViewState.shownMs`. */
  recordShown(shownMs: number): void {
    this.state &&= { ...this.state, shownMs };
  }

  /**
   * Records a chunk that was applied.
   * @param allChanged whether each operation has changed the view. Otherwise Redis has newer entries of some objects.
   */
  recordApplied({ version, shownMs, incarnation, onlyNew, operations }: Chunk, allChanged: boolean): void {
    this.confirmedAtMs = performance.now();
    // `View.state` gives no incarnation for a view without a version.
    const known = this.state?.version === undefined ? undefined : this.state;
    const ended = incarnation === undefined ? {} : { incarnation, rewound: false };
    const shown = version === undefined || shownMs === undefined ? {} : { shownMs };
    this.state = known && { ...known, version: version ?? known.version, ...shown, ...ended };
    for (const operation of operations) {
      const { key } = operation;
      // The many entries of a first list would only replace the entries of objects that change often.
      const entry = operation.kind === 'S' ? operation.entry : undefined;
      const isShort = entry === undefined || entry.length <= MAX_CHARACTERS;
      if (allChanged && !onlyNew && isShort) this.#entries.set(key, entry);
      else this.#entries.delete(key);
    }
  }

  /** The entry of an object; `unknown` when Redis must be asked. */
  entry(key: string): ObjectEntry | 'absent' | 'unknown' {
    const text = this.#entries.get(key);
    if (text !== undefined) return decodeEntry(text);
    return this.#entries.has(key) ? 'absent' : 'unknown';
  }

  /** Drops the entries of objects that another script than the apply script has changed. */
  forgetEntries(keys: Iterable<string>): void {
    for (const key of keys) this.#entries.delete(key);
  }
}
