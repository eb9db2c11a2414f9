/** How long a backoff waits after the first failure, and the most that it grows to, in milliseconds. */
export type BackoffRange = readonly [firstMs: number, mostMs: number];

/** The wait after so many failures in a row, 1 for the first: exponential backoff, which doubles with each failure. */
export function backoffMs([firstMs, mostMs]: BackoffRange, failures: number): number {
  return Math.min(firstMs * 2 ** Math.max(0, failures - 1), mostMs);
}
