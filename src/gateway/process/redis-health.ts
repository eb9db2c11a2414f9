import { messageOf, type Runtime } from '../../core/index.ts';
import type { Redis } from '../../ground/redis/redis.ts';
import { findProblems, type FoundProblem, REDIS_PROBLEMS, type RedisProblem } from '../../ground/redis/redis-server.ts';
import type { HealthCheck } from './health.ts';

/** How often the server is asked. */
const LOOK_MS = 60_000;

/**
 * Checks the configuration and the state of the Redis server at the start and every minute. A problem is logged when it
 * begins and when it ends, shown at `/readyz` and counted by `levelhook_redis_problem`. Dispatch does not wait for
 * this: `Recovery` checks each second for the problems that must pause it at once.
 */
export class RedisHealth {
  readonly #redis: Redis;
  readonly #runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  #found: ReadonlyMap<RedisProblem, FoundProblem> = new Map();

  constructor(redis: Redis, runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>) {
    this.#redis = redis;
    this.#runtime = runtime;
  }

  /** A failure if the gateway cannot work with the server as it was last seen, a warning for any other problem. */
  notReady(): ReturnType<HealthCheck> {
    const found = [...this.#found.values()];
    if (found.length === 0) return undefined;
    const text = found.map(({ reason }) => reason).join('; ');
    return found.some(({ stops }) => stops) ? text : { warning: text };
  }

  /** Looks until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#runtime;
    while (!signal.aborted) {
      await this.look().catch((error: unknown) => {
        if (signal.aborted) return;
        logger.warn({ error: messageOf(error) }, 'Redis did not tell how it is set up, asking again in a minute');
      });
      await clock.sleep(LOOK_MS, signal);
    }
  }

  /** One look. Does nothing while Redis is away: a command would wait until it is back. */
  async look(): Promise<void> {
    if (this.#redis.status !== 'ready') return;
    const { logger, metrics } = this.#runtime;
    const found = new Map<RedisProblem, FoundProblem>();
    for (const each of await findProblems(this.#redis)) if (!found.has(each.problem)) found.set(each.problem, each);
    for (const problem of REDIS_PROBLEMS) {
      const [before, now] = [this.#found.get(problem), found.get(problem)];
      metrics.set('levelhook_redis_problem', { problem }, now ? 1 : 0);
      if (now && !before) logger.warn({ problem, reason: now.reason }, 'Redis is not as levelhook needs it');
      if (before && !now) logger.info({ problem }, 'a problem of Redis is over');
    }
    this.#found = found;
  }
}
