import type { Clock } from '../../core/index.ts';
import type { Redis } from '../redis/redis.ts';
import type { OwnRuns } from './own-runs.ts';
import type { QueueKeys } from './queue-keys.ts';

export interface RunsInFlightOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  readonly ownRuns: OwnRuns;
  readonly clock: Pick<Clock, 'now'>;
}

/** Tells whether runs of one queue are in flight, whichever gateway has started them. */
export class RunsInFlight {
  readonly #options: RunsInFlightOptions;

  constructor(options: RunsInFlightOptions) {
    this.#options = options;
  }

  /**
   * Whether one of these runs is the one in flight of its key, before its deadline. For a run whose answer this gateway
   * waits for it knows that from memory; for any other it asks Redis once.
   * @param incarnation of the queue that the runs are of.
   * @throws when Redis does not answer.
   */
  async hasAny(runs: readonly { readonly key: string; readonly run: number }[], incarnation: string): Promise<boolean> {
    const { clock, keys, ownRuns, redis } = this.#options;
    const nowMs = clock.now();
    if (runs.some((run) => ownRuns.waitsFor({ ...run, incarnation }, nowMs))) return true;
    const [current, ...records] = await Promise.all([
      redis.hget(keys.queue, 'incarnation'),
      ...runs.map(({ key }) => redis.hmget(keys.recordPrefix + key, 'run', 'deadline')),
    ]);
    if (current === null || current !== incarnation) return false;
    return runs.some(({ run }, at) => {
      const [number, deadline] = records[at] ?? [];
      return number === String(run) && Number(deadline) > nowMs;
    });
  }
}
