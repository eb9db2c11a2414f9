import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import type { DueTimer } from './records.ts';
import type { RedisRecords } from './redis-records.ts';
import { BARRIER_AGAIN_MS, BARRIER_LATE_MS } from './queue-options.ts';
import type { Process } from './run.ts';
import type { Upkeep } from './upkeep.ts';

export interface PollerOptions {
  readonly records: RedisRecords;
  readonly process: Process;
  /** Has these keys started: they are ready to run, or their runs are lost. */
  readonly hand: (keys: readonly string[]) => Promise<void>;
  /** The backlog has keys. */
  readonly onLow: () => void;
  /** Looked after between two looks. Default: nothing is. */
  readonly upkeep?: Pick<Upkeep, 'look'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Two looks are at least this far apart: what is due in between is due together. */
export const LEAST_MS = 5;
/**
 * Another gateway may have set a timer, and died: at rest this is all that happens, and for all queues of a process at
 * the same moment, since it is waking up that costs.
 */
export const IDLE_MS = 5000;
const LIMIT = 500;
/** A key whose time has come and that was not started within this time is handed out again. */
const AGAIN_MS = 30_000;
/** The same for a run that is to be settled: until it is, its key stands still. */
const SETTLE_AGAIN_MS = 5000;

/**
 * Finds keys whose time has come: due timers whose barrier has passed, debounced keys, runs past their deadline, and
 * keys of the backlog. It sleeps until the next of them is due; a caller in this process that sets an earlier time
 * wakes it. Any number of pollers may work on one queue: each key is handed out by the one that moves its time ahead.
 */
export class Poller {
  readonly #options: PollerOptions;
  #stop = new AbortController();
  #loop: Promise<void> = Promise.resolve();
  #nextMs = 0;
  #wakeUp: AbortController | undefined;

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#loop = this.#run(this.#stop.signal);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wakeUp?.abort();
    await this.#loop;
  }

  /** Something is due at this time, or now. */
  wake(atMs = 0): void {
    if (atMs >= this.#nextMs) return;
    this.#nextMs = atMs;
    this.#wakeUp?.abort();
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      const startedAt = clock.now();
      this.#nextMs = (Math.floor(startedAt / IDLE_MS) + 1) * IDLE_MS;
      try {
        this.wake(await this.tick());
      } catch (error) {
        logger.error({ error: messageOf(error) }, 'the poller could not read the queue, trying again');
      }
      await this.#sleep(startedAt + LEAST_MS, signal);
    }
  }

  async #sleep(earliestMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      const ms = Math.max(this.#nextMs, earliestMs) - clock.now();
      if (signal.aborted || ms <= 0) return;
      const wakeUp = new AbortController();
      this.#wakeUp = wakeUp;
      await clock.sleep(ms, wakeUp.signal);
      // Trap: after a stop and a start at once there is another sleeper already.
      if (this.#wakeUp === wakeUp) this.#wakeUp = undefined;
    }
  }

  /** One look. @returns when the next is due, as far as this one has seen. */
  async tick(): Promise<number> {
    const { records, hand, onLow, clock, upkeep } = this.#options;
    const now = clock.now();
    const { timers, debounced, inFlight, backlog, pauseEnds, nextMs = Infinity } = await records.due(now, LIMIT);
    const ready: DueTimer[] = [];
    const waiting: DueTimer[] = [];
    if (timers.length > 0) {
      // Many keys of a burst share the views they wait for, rarely the whole barrier; each is one short read.
      const passed = await Promise.all(timers.map((timer) => this.#passed(timer.barrier, timer.barrierAtMs, now)));
      timers.forEach((timer, at) => (passed[at] ? ready : waiting).push(timer));
    }
    const again = now + AGAIN_MS;
    const handed = await Promise.all([
      records.wake('timers', again, ready),
      records.wake('debounced', again, debounced),
      records.postpone('inFlight', now + SETTLE_AGAIN_MS, inFlight),
      // Out of the way of keys that can run, and looked at again soon.
      records.postpone('timers', now + BARRIER_AGAIN_MS, waiting).then(() => []),
    ]);
    await hand(handed.flat());
    for (const { key: scope, score } of pauseEnds) await records.resume(scope, score);
    if (backlog > 0) onLow();
    const upkeepMs = (await upkeep?.look(now)) ?? Infinity;
    const more = [timers, debounced, inFlight].some(({ length }) => length === LIMIT) || pauseEnds.length > 0;
    if (more) return now;
    return Math.min(nextMs, waiting.length > 0 ? now + BARRIER_AGAIN_MS : Infinity, upkeepMs);
  }

  async #passed(barrier: string | undefined, sinceMs: number, now: number): Promise<boolean> {
    const { process, logger } = this.#options;
    try {
      if (barrier === undefined || (await process.passed(barrier))) return true;
    } catch (error) {
      // One barrier that cannot be asked about must not keep the other keys waiting.
      logger.warn({ error: messageOf(error) }, 'a barrier could not be checked, trying again');
      return false;
    }
    if (now - sinceMs > BARRIER_LATE_MS) process.late(barrier);
    return false;
  }
}
