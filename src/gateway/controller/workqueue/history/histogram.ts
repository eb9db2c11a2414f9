/**
 * Counts of durations, by the number of a bucket as text, so that JSON can hold them. Each bucket is wider than the one
 * before by the fourth root of 2, so a percentile is off by 9 % at most. The histograms of several gateways are added
 * bucket by bucket.
 */
export type Histogram = Record<string, number>;

/** Half of the durations, and 99 % of them, are at most this long. Milliseconds. */
export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

const PER_DOUBLING = 4;
/** The bucket of 12 days, and of longer durations. */
const LAST_BUCKET = 30 * PER_DOUBLING;

export function countDuration(histogram: Histogram, ms: number): void {
  const bucket = ms < 1 ? 0 : Math.min(LAST_BUCKET, 1 + Math.floor(PER_DOUBLING * Math.log2(ms)));
  histogram[bucket] = (histogram[bucket] ?? 0) + 1;
}

/** Undefined for a histogram without a count. */
export function percentilesOf(histogram: Histogram): Percentiles | undefined {
  const buckets = Object.entries(histogram)
    .map(([bucket, count]) => [Number(bucket), count] as const)
    .toSorted(([one], [other]) => one - other);
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return undefined;
  const at = (share: number): number => {
    let seen = 0;
    for (const [bucket, count] of buckets) {
      seen += count;
      if (seen >= total * share) return msOf(bucket);
    }
    return msOf(LAST_BUCKET);
  };
  return { p50: at(0.5), p99: at(0.99) };
}

/** The middle of a bucket: whole milliseconds, since no duration is more exact. */
function msOf(bucket: number): number {
  return bucket === 0 ? 0 : Math.max(1, Math.round(2 ** ((bucket - 0.5) / PER_DOUBLING)));
}
