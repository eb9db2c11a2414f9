import { array, assert, integer, property } from 'fast-check';
import { expect, it } from 'vitest';
import { countDuration, type Histogram, percentilesOf } from './histogram.ts';

const counted = (all: readonly number[]): Histogram => {
  const histogram: Histogram = {};
  for (const ms of all) countDuration(histogram, ms);
  return histogram;
};

it('a histogram tells percentiles within 9.1 %, as whole milliseconds, whatever the durations are', () => {
  const durations = array(integer({ min: 0, max: 100_000_000 }), { minLength: 1, maxLength: 300 });
  assert(
    property(durations, (all) => {
      const sorted = all.toSorted((one, other) => one - other);
      const exact = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? NaN;
      const { p50 = NaN, p99 = NaN } = percentilesOf(counted(all)) ?? {};
      for (const [told, is] of [
        [p50, exact(0.5)],
        [p99, exact(0.99)],
      ] as const) {
        expect(Math.abs(told - is)).toBeLessThanOrEqual(is * 0.0906 + 0.5);
      }
    }),
  );
});

it('a histogram has no percentiles without a duration', () => {
  expect(percentilesOf({})).toBeUndefined();
});
