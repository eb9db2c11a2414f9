import { randomUUID } from 'node:crypto';
import { type Clock, messageOf } from '../../core/index.ts';

/** A replay of many dead letters, which goes on after the request that began it. */
export interface Replay {
  readonly id: string;
  readonly controller: string;
  readonly label: string;
  readonly startedMs: number;
  /** Undefined until it is known how many there are. */
  readonly total: number | undefined;
  readonly done: number;
  readonly endedMs: number | undefined;
  readonly error: string | undefined;
}

/** Replays that are remembered. */
const KEPT = 10;
const SHOWN_MS = 10 * 60_000;

/** The replays that this gateway runs or has run lately, with their progress. */
export class Replays {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #replays = new Map<string, Replay>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** The newest first. */
  recent(): Replay[] {
    const sinceMs = this.#clock.now() - SHOWN_MS;
    return [...this.#replays.values()].filter(({ endedMs }) => endedMs === undefined || endedMs > sinceMs).toReversed();
  }

  /**
   * Begins a replay; a controller has one at a time.
   * @returns false when one of this controller is under way. The work's failure shows in the replay.
   */
  start(
    controller: string,
    label: string,
    work: (onProgress: (done: number, total: number) => void) => Promise<number>,
  ): boolean {
    const isUnderWay = (each: Replay): boolean => each.controller === controller && each.endedMs === undefined;
    if ([...this.#replays.values()].some(isUnderWay)) return false;
    const id = randomUUID();
    const change = (changes: Partial<Replay>): void => {
      const known = this.#replays.get(id);
      if (known) this.#replays.set(id, { ...known, ...changes });
    };
    const startedMs = this.#clock.now();
    const none = { total: undefined, done: 0, endedMs: undefined, error: undefined };
    this.#replays.set(id, { id, controller, label, startedMs, ...none });
    for (const old of [...this.#replays.keys()].slice(0, -KEPT)) this.#replays.delete(old);
    void work((done, total) => change({ done, total })).then(
      (done) => change({ done, endedMs: this.#clock.now() }),
      (error: unknown) => change({ error: messageOf(error), endedMs: this.#clock.now() }),
    );
    return true;
  }
}
