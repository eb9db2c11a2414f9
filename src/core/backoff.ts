/** The wait of a backoff after the first failure, and its upper bound, in milliseconds. */
export type BackoffRange = readonly [firstMs: number, mostMs: number];

/**
 * The wait after `failures` failures in a row, 1 for the first: exponential backoff, which doubles with each failure.
 */
export function backoffMs([firstMs, mostMs]: BackoffRange, failures: number): number {
  return Math.min(firstMs * 2 ** Math.max(0, failures - 1), mostMs);
}
