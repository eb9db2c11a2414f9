import { randomUUID } from 'node:crypto';
import { isResourceVersion, parseJson, UnavailableError } from '../../../core/index.ts';
import { connectionLosses, type Redis } from '../../../ground/redis/redis.ts';
import type { PastList } from '../reflector/reflector.ts';
import type { LastWritten, ViewState } from './last-written.ts';
import type { ViewWriter } from './view-writer.ts';

/** The field of a view's HASH that counts how often a user was absent and missed changes. */
function missedField(user: string): string {
  return `missed:${user}`;
}

/** The HASH of a view: how far its objects are, which gateway writes it, and who received its changes. */
export class ViewRecord {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #writer: ViewWriter;
  readonly #lastWritten: LastWritten;
  /** The highest position that this process has seen. */
  #position: number | undefined;
  #asking: Promise<number | undefined> | undefined;
  /** Those of the last read of the state. */
  #last: Pick<ViewState, 'shownMs' | 'rewound'> | undefined;

  constructor(redis: Redis, key: string, writer: ViewWriter, lastWritten: LastWritten) {
    this.#redis = redis;
    this.#key = key;
    this.#writer = writer;
    this.#lastWritten = lastWritten;
  }

  /** The view's state as Redis has it now. */
  async state(): Promise<ViewState> {
    const known = this.#lastWritten.current;
    const fields = [
      'version',
      'shownMs',
      'incarnation',
      'runId',
      'rewound',
      'unserved',
      'writerId',
      'position',
    ] as const;
    const values = await this.#redis.hmget(this.#key, ...fields);
    const [version, shownMs, incarnation, runId, rewound, unserved, writerId, position] = values;
    this.recordPosition(Number(position));
    const state: ViewState = {
      version: isResourceVersion(version) ? version : undefined,
      // Without a version it was emptied after it was found in order: there is nothing that could have been filled.
      incarnation: isResourceVersion(version) ? (incarnation ?? undefined) : undefined,
      runId: runId ?? undefined,
      shownMs: isResourceVersion(version) && shownMs ? Number(shownMs) : undefined,
      rewound: rewound === '1',
      isServed: unserved !== '1',
      writerId: writerId ?? undefined,
    };
    this.#last = state;
    if (this.#writer.is(state.writerId)) known.recordState(state);
    else this.#lastWritten.forget();
    return state;
  }

  /**
   * Version, incarnation and age, without a trip to Redis in the gateway that writes the view (see `LastWritten`).
   * Redis has this version or a later one, unless it has lost data within the last two seconds and has kept the
   * connection.
   */
  async progress(): Promise<Pick<ViewState, 'version' | 'incarnation' | 'shownMs' | 'rewound'>> {
    return this.#lastWritten.trusted?.state ?? this.state();
  }

  /**
   * `ViewState.shownMs` without a trip to Redis: recovery reads the state once a second. Undefined while it is rewound.
   */
  get lastShownMs(): number | undefined {
    const state = this.#lastWritten.trusted?.state ?? this.#last;
    return state?.rewound ? undefined : state?.shownMs;
  }

  /**
   * The position of the view at this moment or later; undefined before its first write. A reader that finds a lower
   * position reads a view that lacks writes from before this call. The gateway that writes the view knows the position.
   * Another gateway asks Redis, with one command for all calls of one turn of the event loop.
   * @throws UnavailableError when the connection was lost during the request: the answer may come from a process that
   *   lacks writes.
   */
  async position(): Promise<number | undefined> {
    if (this.#writer.isWriter) return this.#position;
    return (this.#asking ??= this.#askPosition());
  }

  async #askPosition(): Promise<number | undefined> {
    // Behind all calls of this turn.
    await Promise.resolve();
    this.#asking = undefined;
    const losses = connectionLosses(this.#redis);
    const position = await this.#redis.hget(this.#key, 'position');
    if (losses !== connectionLosses(this.#redis)) throw new UnavailableError('the connection to Redis was lost');
    return position === null ? undefined : Number(position);
  }

  /** A write has answered with this position: in any order, and after a loss of data with a lower one. */
  recordPosition(position: number): void {
    if (position > (this.#position ?? 0)) this.#position = position;
  }

  /** Starts a new incarnation on the Redis process `runId`. @throws ForeignWriterError */
  async renew(runId: string): Promise<void> {
    const fields = { incarnation: randomUUID(), runId };
    this.recordPosition(await this.#writer.set(fields, this.#position));
    this.#lastWritten.forget();
  }

  /**
   * From here to the end of the list the view is a mixture: should this gateway end before, the next lists it again.
   */
  async markRewound(): Promise<void> {
    await this.#writer.set({ rewound: '1' });
    this.#lastWritten.forget();
  }

  /** Whether the server serves the resource, as far as is known. @throws ForeignWriterError */
  async markServed(isServed: boolean): Promise<void> {
    await this.#writer.set({ unserved: isServed ? '' : '1' });
    this.#lastWritten.forget();
  }

  /** See `ViewState.shownMs`. @throws ForeignWriterError */
  async recordShown(shownMs: number): Promise<void> {
    const known = this.#lastWritten.current;
    await this.#writer.set({ shownMs: String(shownMs) });
    known.recordShown(shownMs);
  }

  /** The last list of the server that was completely applied, by any gateway; undefined when there was none. */
  async lastList(): Promise<PastList | undefined> {
    const text = await this.#redis.hget(this.#key, 'lastList');
    return text === null ? undefined : (parseJson(text) as PastList);
  }

  /** @throws ForeignWriterError */
  async recordList(list: PastList): Promise<void> {
    await this.#writer.set({ lastList: JSON.stringify(list) });
  }

  /** The users that received the last changes. */
  async hearers(): Promise<readonly string[]> {
    return ((await this.#redis.hget(this.#key, 'users')) ?? '').split('\n').filter((user) => user !== '');
  }

  /** How many times `user` was absent from the users that receive changes, after it had been among them. */
  async missedBy(user: string): Promise<string> {
    return (await this.#redis.hget(this.#key, missedField(user))) ?? '';
  }

  /** @throws ForeignWriterError */
  async recordMissed(user: string): Promise<void> {
    await this.#writer.increment(missedField(user));
  }
}
