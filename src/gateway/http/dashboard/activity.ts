import type { Sample } from '../../controller/workqueue/work-queue.ts';

/** The activity of a controller at present: the last five minutes of its samples. */
export interface Activity {
  /** Runs that ended, per minute. */
  readonly perMinute: number;
  /** The share of failed runs, 0 to 1; undefined without a run. */
  readonly failedShare: number | undefined;
  /** The highest p99 of the intervals, and the median of their p50. */
  readonly tookMs: Span | undefined;
  /** From the event to the start of the run. */
  readonly waitedMs: Span | undefined;
}

export interface Span {
  readonly p50: number;
  readonly p99: number;
}

const RECENT_MS = 5 * 60_000;

/** @param sampleMs the length of an interval. */
export function activityOf(samples: readonly Sample[], sampleMs: number): Activity {
  const recent = samples.slice(-Math.ceil(RECENT_MS / sampleMs));
  const runs = recent.reduce((sum, each) => sum + each.runs, 0);
  const failed = recent.reduce((sum, each) => sum + each.failed, 0);
  const minutes = (recent.length * sampleMs) / 60_000;
  return {
    perMinute: minutes === 0 ? 0 : runs / minutes,
    failedShare: runs === 0 ? undefined : failed / runs,
    tookMs: spanOf(recent.flatMap(({ tookMs }) => tookMs ?? [])),
    waitedMs: spanOf(recent.flatMap(({ waitedMs }) => waitedMs ?? [])),
  };
}

/** Percentiles of several intervals cannot be added up: the middle p50 and the worst p99 are shown. */
function spanOf(spans: readonly Span[]): Span | undefined {
  if (spans.length === 0) return undefined;
  const middle = spans.map(({ p50 }) => p50).toSorted((a, b) => a - b)[Math.floor(spans.length / 2)];
  return { p50: middle ?? 0, p99: Math.max(...spans.map(({ p99 }) => p99)) };
}
