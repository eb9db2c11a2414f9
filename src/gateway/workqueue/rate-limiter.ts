/**
 * The wait before the next attempt of a key that has failed `failures` times (1 for the first): 5 ms doubling to
 * 1000 s. client-go's ItemExponentialFailureRateLimiter with the values of DefaultTypedControllerRateLimiter
 * (util/workqueue/default_rate_limiters.go).
 */
export function backoffMs(failures: number): number {
  return Math.min(BASE_MS * 2 ** Math.max(0, failures - 1), MAX_MS);
}

const BASE_MS = 5;
const MAX_MS = 1_000_000;
