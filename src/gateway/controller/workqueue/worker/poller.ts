import { messageOf, type Runtime } from '../../../../core/index.ts';
import type { BarrierChecks } from './barrier-checks.ts';
import type { PaceShare } from './idle-pace.ts';
import type { Due, DueTimer } from '../records/records.ts';
import type { RedisRecords } from '../records/redis-records.ts';
import { barrierAgainMs } from '../queue-options.ts';
import type { Upkeep } from './upkeep.ts';

export interface PollerOptions {
  readonly records: RedisRecords;
  readonly barriers: Pick<BarrierChecks, 'passed'>;
  /** Called with keys that are ready to run. */
  readonly onReady: (keys: readonly string[]) => Promise<void>;
  /** Called with keys whose runs have passed their deadline. */
  readonly onOverdue: (keys: readonly string[]) => Promise<void>;
  /** Called by each tick with the answer of Redis, after `onReady` and `onOverdue`. */
  readonly onDue: (due: Due) => void;
  /** Its `run` is called by each tick. */
  readonly upkeep: Pick<Upkeep, 'run'>;
  /** Says when to tick while nothing is due. */
  readonly pace: Pick<PaceShare, 'nextMs'>;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
}

/** The least time between two ticks: keys that become due in between are read together. */
export const MIN_POLL_INTERVAL_MS = 5;
/**
 * The time between two ticks when nothing is due: another gateway may have set a timer and died. The more queues the
 * gateway has, the longer it is (`IdlePace`).
 */
export const IDLE_POLL_INTERVAL_MS = 5000;
const LIMIT = 500;
/** A key whose time has come and that has not started becomes due again after this. */
const AGAIN_MS = 30_000;
/** The same for a run that must be settled. The time is shorter, because the key cannot run until then. */
const SETTLE_AGAIN_MS = 5000;

/**
 * Finds keys whose time has come: due timers whose barrier has passed, debounced keys, and runs past their deadline. It
 * also ends pauses whose time is over. It sleeps until the next key is due; a caller in this process that sets an
 * earlier time wakes it. Several pollers may share one queue: each postpones the keys that it finds due, and reports
 * only keys that no other poller has postponed before.
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

  /** Makes the poller tick at this time at the latest. Default: now. */
  wake(atMs = 0): void {
    if (atMs >= this.#nextMs) return;
    this.#nextMs = atMs;
    this.#wakeUp?.abort();
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { runtime, pace } = this.#options;
    const { clock, logger } = runtime;
    while (!signal.aborted) {
      const startedAt = clock.now();
      this.#nextMs = pace.nextMs(startedAt, IDLE_POLL_INTERVAL_MS);
      try {
        this.wake(await this.tick());
      } catch (error) {
        logger.error({ error: messageOf(error) }, 'the poller could not read the queue, trying again');
        this.wake(startedAt + IDLE_POLL_INTERVAL_MS);
      }
      await this.#sleep(startedAt + MIN_POLL_INTERVAL_MS, signal);
    }
  }

  async #sleep(earliestMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.runtime;
    for (;;) {
      const ms = Math.max(this.#nextMs, earliestMs) - clock.now();
      if (signal.aborted || ms <= 0) return;
      const wakeUp = new AbortController();
      this.#wakeUp = wakeUp;
      await clock.sleep(ms, wakeUp.signal);
      // Trap: after a stop and a start, the new loop may sleep already.
      if (this.#wakeUp === wakeUp) this.#wakeUp = undefined;
    }
  }

  /** Handles the keys that are due now. @returns the time of the next tick. */
  async tick(): Promise<number> {
    const { records, barriers, onReady, onOverdue, onDue, upkeep, runtime } = this.#options;
    const now = runtime.clock.now();
    const due = await records.due(now, LIMIT);
    const { timers, debounced, inFlight, pauseEnds, nextMs = Infinity } = due;
    const ready: DueTimer[] = [];
    const waiting: DueTimer[] = [];
    if (timers.length > 0) {
      // Each barrier is checked alone, because keys rarely have the same barrier, and a check is one short read.
      const passed = await Promise.all(timers.map(({ barrier, barrierAtMs }) => barriers.passed(barrier, barrierAtMs)));
      timers.forEach((timer, at) => (passed[at] ? ready : waiting).push(timer));
    }
    const again = now + AGAIN_MS;
    const held = Map.groupBy(waiting, ({ barrierAtMs }) => now + barrierAgainMs(now - barrierAtMs));
    const [woken, added, overdue] = await Promise.all([
      records.wake('timers', again, ready),
      records.wake('debounced', again, debounced),
      records.postpone('inFlight', now + SETTLE_AGAIN_MS, inFlight),
      // Postponed, so that the next tick reads other keys first.
      ...[...held].map(([atMs, timers]) => records.hold(atMs, timers)),
    ]);
    await Promise.all([onReady([...woken, ...added]), onOverdue(overdue)]);
    for (const { key: scope, score } of pauseEnds) await records.resume(scope, score);
    onDue(due);
    const upkeepMs = (await upkeep.run(now)) ?? Infinity;
    const more = [timers, debounced, inFlight].some(({ length }) => length === LIMIT) || pauseEnds.length > 0;
    if (more) return now;
    return Math.min(nextMs, ...held.keys(), upkeepMs);
  }
}
