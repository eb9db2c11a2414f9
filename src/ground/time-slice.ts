import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { TenantTurns } from '../core/index.ts';

/** How long work may go on before everything else that waits for this thread has a turn. */
export const SLICE_MS = 10;
/**
 * A slice that took more processor time held an object that cannot be divided: to parse 1.5 MB of JSON takes some 60
 * ms. While other programs take the processors, any slice may take longer by the clock, and must not wait for the rests
 * of long ones.
 */
const LONG_MS = 12;
/** A process that was stopped for seconds has not worked for seconds. */
const LONGEST_REST_MS = 250;

/**
 * Divides long work of the thread into slices, so that health checks, answers of functions and other views continue in
 * between. After a long slice the work pauses for the time that the slice took, and the pauses of all work in the
 * process follow one another, those of the tenants in turn. So large objects take about half of the thread, however
 * many are read at once, and a wakeup, which needs a dozen turns of the event loop, does not wait for a large object at
 * each turn. Half of the thread is no strict limit, because work that starts anew does not wait for the pause of other
 * work.
 */
export class TimeSlice {
  static readonly #rests = new TenantTurns(1);
  /** Whose work it is. Empty: the gateway's own. */
  readonly tenant: string;
  readonly #signal: AbortSignal | undefined;
  #from = performance.now();
  #usedMs = threadMs();

  /**
   * @param tenant whose work it is. Default: the gateway's own.
   * @param signal ends the work.
   */
  constructor(tenant = '', signal?: AbortSignal) {
    this.tenant = tenant;
    this.#signal = signal;
  }

  /** Called before each piece of the work that may have waited: for Redis, a rest or a budget. @throws the reason. */
  throwIfEnded(): void {
    this.#signal?.throwIfAborted();
  }

  get isOver(): boolean {
    return performance.now() - this.#from > SLICE_MS;
  }

  /** Begins again after a wait for something else: that was no work. */
  restart(): void {
    this.#from = performance.now();
    this.#usedMs = threadMs();
  }

  /**
   * Lets everything else that is ready go first; after a long slice, also everything that becomes ready during the
   * rest.
   */
  async next(): Promise<void> {
    const tookMs = performance.now() - this.#from;
    const isLong = tookMs > LONG_MS && threadMs() - this.#usedMs > LONG_MS;
    await this.rest(isLong ? tookMs : 0);
    this.restart();
  }

  /** Lets everything else that is ready go first, whatever this slice took: for work that a budget limits already. */
  async giveWay(): Promise<void> {
    await nextTurn();
    this.restart();
  }

  /** The pause of `next` after work that took `ms`, for a caller that measures its work itself. */
  rest(ms: number): Promise<void> {
    if (ms <= LONG_MS) return nextTurn();
    return TimeSlice.#rests.run(this.tenant, async () => {
      // The slice that has rested before this one works until the next turn.
      await nextTurn();
      await sleep(Math.min(ms, LONGEST_REST_MS));
    });
  }
}

/** Processor time of this thread, in milliseconds. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
