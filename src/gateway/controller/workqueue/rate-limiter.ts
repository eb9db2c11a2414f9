import { backoffMs } from '../../../core/index.ts';

/**
 * The wait before the next attempt of a key that has failed `failures` times (1 for the first): 5 ms doubling to
 * 1000 s. client-go's ItemExponentialFailureRateLimiter with the values of DefaultTypedControllerRateLimiter
 * (util/workqueue/default_rate_limiters.go).
 */
export function keyBackoffMs(failures: number): number {
  return backoffMs([5, 1_000_000], failures);
}
