import type { Clock } from '../../../../core/index.ts';
import type { Redis } from '../../../../ground/redis/redis.ts';
import type { OwnRuns } from './own-runs.ts';
import type { QueueKeys } from '../queue-keys.ts';

export interface RunsInFlightOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  readonly ownRuns: OwnRuns;
  readonly clock: Pick<Clock, 'now'>;
}

/** Finds out whether runs of one queue are in flight, whichever gateway has started them. */
export class RunsInFlight {
  readonly #options: RunsInFlightOptions;

  constructor(options: RunsInFlightOptions) {
    this.#options = options;
  }

  /**
   * Whether one of these runs is in flight for its key, before its deadline. If this gateway waits for a run's answer,
   * it knows that from memory. For any other run it asks Redis: about the first run, and about the others only if the
   * first is over.
   * @param incarnation the incarnation of the runs' queue.
   * @throws when Redis does not answer.
   */
  async hasAny(runs: readonly NamedRun[], incarnation: string): Promise<boolean> {
    const { clock, keys, ownRuns, redis } = this.#options;
    const nowMs = clock.now();
    if (runs.some((run) => ownRuns.waitsFor({ ...run, incarnation }, nowMs))) return true;
    // The runs of a batch end together, unless its answer is streamed.
    const [first, ...others] = runs;
    if (!first) return false;
    const [current, isFirst] = await Promise.all([
      redis.hget(keys.queue, 'incarnation'),
      this.#isOnRecord(first, nowMs),
    ]);
    if (current === null || current !== incarnation) return false;
    return isFirst || (await Promise.all(others.map((run) => this.#isOnRecord(run, nowMs)))).includes(true);
  }

  async #isOnRecord({ key, run }: NamedRun, nowMs: number): Promise<boolean> {
    const { keys, redis } = this.#options;
    const [number, deadline] = await redis.hmget(keys.recordPrefix + key, 'run', 'deadline');
    return number === String(run) && Number(deadline) > nowMs;
  }
}

interface NamedRun {
  readonly key: string;
  readonly run: number;
}
