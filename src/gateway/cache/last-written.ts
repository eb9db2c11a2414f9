import type { ResourceVersion } from '../../core/index.ts';
import { decodeEntry, type ObjectEntry } from '../../contract/cache-layout.ts';
import { connectionLosses, type Redis } from '../redis/redis.ts';
import type { Chunk } from './chunk.ts';

/** What a view says of itself. */
export interface ViewState {
  /** Up to which the view is complete; undefined until its first list is. */
  readonly version: ResourceVersion | undefined;
  /** Names this filling of the view. Another one means that everything in it may be new. */
  readonly incarnation: string | undefined;
  /** The Redis process that it was written on: another one may have lost the last writes. */
  readonly runId: string | undefined;
  /** A list of data that went back in time has begun and not ended: the view is a mixture of two pasts. */
  readonly rewound: boolean;
  /** Who may write to it; undefined when that is lost. */
  readonly writerId: string | undefined;
}

/** Entries that are kept: those of the objects that change most often. One takes some 200 bytes. */
const MOST_ENTRIES = 2000;
/** Recovery reads each view once a second, so what it does not confirm is no longer trusted. */
const TRUSTED_MS = 2000;

/**
 * What the writer of a view knows of it without asking Redis: its state and the entries that it wrote last. Nobody else
 * writes to the view, so this is what Redis holds, as long as the connection holds, no write fails, and Redis has
 * answered a write or a read of the state within the last two seconds. Otherwise nothing is known, and Redis is asked.
 */
export class LastWritten {
  readonly #redis: Redis;
  #losses = 0;
  #known = new KnownView();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Where the answer of a command belongs: taken when the command is sent. After a loss of the connection or a `forget`
   * meanwhile its answer tells nothing of what Redis holds now, and is recorded nowhere.
   */
  get current(): KnownView {
    const losses = connectionLosses(this.#redis);
    const isOld = performance.now() - this.#known.confirmedAtMs > TRUSTED_MS;
    if (losses !== this.#losses || isOld) this.forget();
    this.#losses = losses;
    return this.#known;
  }

  /** What can be told without asking Redis; undefined while Redis is away. */
  get trusted(): KnownView | undefined {
    return this.#redis.status === 'ready' ? this.current : undefined;
  }

  /** A write has failed, or something else may have changed the view. */
  forget(): void {
    this.#known = new KnownView();
  }
}

/** What is known from the answers of one connection, without a failure in between. */
export class KnownView {
  /** Undefined until it was read as this writer's. */
  state: ViewState | undefined;
  /** When Redis answered last, or before that when this began with nothing known. */
  confirmedAtMs = performance.now();
  /** Encoded; undefined for an object that the view does not have. The oldest first. */
  readonly #entries = new Map<string, string | undefined>();

  /** Records what the view said of itself. */
  recordState(state: ViewState): void {
    this.state = state;
    this.confirmedAtMs = performance.now();
  }

  /** Records a chunk that was applied. @param isWhole each of its operations has changed the view. */
  recordApplied({ version, incarnation, onlyNew, operations }: Chunk, isWhole: boolean): void {
    this.confirmedAtMs = performance.now();
    // Of a view without a version the incarnation was not told (`View.state`).
    const known = this.state?.version === undefined ? undefined : this.state;
    const ended = incarnation === undefined ? {} : { incarnation, rewound: false };
    this.state = known && { ...known, version: version ?? known.version, ...ended };
    // A first list would only push the others out, to be pushed out by itself.
    if (onlyNew) return;
    for (const operation of operations) {
      const { key } = operation;
      // The last ones written stay longest.
      this.#entries.delete(key);
      if (isWhole) this.#entries.set(key, operation.kind === 'S' ? operation.entry : undefined);
    }
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= MOST_ENTRIES) return;
      this.#entries.delete(key);
    }
  }

  /** The entry of an object; `unknown` when Redis must be asked. */
  entry(key: string): ObjectEntry | 'absent' | 'unknown' {
    const text = this.#entries.get(key);
    if (text !== undefined) return decodeEntry(text);
    return this.#entries.has(key) ? 'absent' : 'unknown';
  }

  /** Records that the entries of these objects were changed in another way. */
  forgetEntries(keys: Iterable<string>): void {
    for (const key of keys) this.#entries.delete(key);
  }
}
