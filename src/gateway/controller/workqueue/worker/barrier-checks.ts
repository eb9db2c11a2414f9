import { type Clock, NewestMap } from '../../../../core/index.ts';
import { BARRIER_LATE_MS } from '../queue-options.ts';
import type { BarrierText, Process } from '../run.ts';

export interface BarrierChecksOptions {
  readonly process: Pick<Process, 'passed' | 'late'>;
  readonly clock: Clock;
  /** A barrier could not be checked. */
  readonly onError: (error: unknown) => void;
}

/** How many keys are remembered, with barriers of this length at most. Other keys need a second request to start. */
const MOST_REMEMBERED = 10_000;
const LONGEST_REMEMBERED = 512;

/**
 * Asks the process whether its views have passed a barrier, for starts, timers, keys at rest and people; no other part
 * asks. It remembers the barrier of each key's last run here, which saves that key a second call for its start.
 */
export class BarrierChecks {
  readonly #options: BarrierChecksOptions;
  /** The barriers of keys whose last run ended here, until the key starts here again. */
  readonly #last = new NewestMap<string, BarrierText>(MOST_REMEMBERED);

  constructor(options: BarrierChecksOptions) {
    this.#options = options;
  }

  /** The key's last run ended here with this barrier. */
  remember(key: string, barrier: BarrierText): void {
    if (barrier.length <= LONGEST_REMEMBERED) this.#last.set(key, barrier);
    else this.#last.delete(key);
  }

  forget(key: string): void {
    this.#last.delete(key);
  }

  /** The barrier of the key's last run, if that run ended here and the views have passed it. */
  async passedOf(key: string): Promise<BarrierText | undefined> {
    const barrier = this.#last.get(key);
    return barrier !== undefined && (await this.passed(barrier)) ? barrier : undefined;
  }

  /**
   * Never rejects. A barrier that cannot be checked has not passed, so that it delays no other key.
   * @param barrier undefined: there is none to wait for.
   * @param sinceMs since when the key has waited. Default: `passed` never reports the barrier as late.
   */
  async passed(barrier: BarrierText | undefined, sinceMs = Infinity): Promise<boolean> {
    const { process, clock, onError } = this.#options;
    if (barrier === undefined) return true;
    let passed: boolean | undefined;
    try {
      passed = await process.passed(barrier);
    } catch (error) {
      onError(error);
    }
    // A check that did not happen says nothing of the views.
    if (passed === false && clock.now() - sinceMs > BARRIER_LATE_MS) process.late(barrier);
    return passed ?? false;
  }
}
