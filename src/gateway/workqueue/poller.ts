import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import type { DueTimer, KeyRecords } from './key-record.ts';
import type { Process } from './work-queue.ts';

export interface PollerOptions {
  readonly records: KeyRecords;
  readonly process: Process;
  /** Adds jobs for these keys. */
  readonly addJobs: (keys: readonly string[]) => Promise<void>;
  readonly concurrency: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const TICK_MS = 20;
const LIMIT = 500;
/** A key that was added and not started within this time is added again. */
const ADD_AGAIN_MS = 30_000;
/** The same for a run that is to be settled: until it is, its key stands still. */
const SETTLE_AGAIN_MS = 5000;
/** A barrier older than this is reported as late. */
const LATE_MS = 1000;

/**
 * Turns time into jobs, every 20 ms: due timers whose barrier has passed, runs past their deadline, and keys of the
 * backlog when there is room. Any number of pollers may work on one queue: what two of them add, BullMQ merges.
 */
export class Poller {
  readonly #options: PollerOptions;
  #stop = new AbortController();
  #loop: Promise<void> = Promise.resolve();

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
    await this.#loop;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      let more = false;
      try {
        more = await this.tick();
      } catch (error) {
        logger.error({ error: messageOf(error) }, 'the poller could not read the queue, trying again');
        await clock.sleep(1000, signal);
      }
      if (!more) await clock.sleep(TICK_MS, signal);
    }
  }

  /** One look. @returns whether there was more than fits into one. */
  async tick(): Promise<boolean> {
    const { records, addJobs, clock, concurrency } = this.#options;
    const now = clock.now();
    const { timers, flights, backlog } = await records.due(now, LIMIT, Math.max(200, 4 * concurrency));
    if (timers.length + flights.length + backlog.length === 0) return false;
    const ready: DueTimer[] = [];
    const waiting: DueTimer[] = [];
    // Many keys of a burst share the views they wait for, rarely the whole barrier; each is one short read.
    const passed = await Promise.all(timers.map((timer) => this.#passed(timer.barrier, timer.barrierAtMs, now)));
    timers.forEach((timer, at) => (passed[at] ? ready : waiting).push(timer));
    await addJobs([...ready, ...flights, ...backlog].map(({ key }) => key));
    const again = now + ADD_AGAIN_MS;
    await records.postpone('timers', again, ready);
    await records.postpone('flights', now + SETTLE_AGAIN_MS, flights);
    await records.postpone('backlog', again, backlog);
    // Out of the way of keys that can run, and looked at again at the next tick.
    await records.postpone('timers', now + TICK_MS, waiting);
    return timers.length === LIMIT && ready.length > 0;
  }

  async #passed(barrier: string | undefined, sinceMs: number, now: number): Promise<boolean> {
    if (barrier === undefined || (await this.#options.process.passed(barrier))) return true;
    if (now - sinceMs > LATE_MS) this.#options.process.late(barrier);
    return false;
  }
}
