import { expect, test } from 'vitest';
import type { Sample } from '../../controller/workqueue/work-queue.ts';
import { activityOf } from './activity.ts';
import { plot } from './components/plot.ts';

const sample = (more: Partial<Sample>): Sample => ({ atMs: 0, runs: 0, failed: 0, ...more });

test('the last five minutes give rate, share of failures, middle p50 and worst p99', () => {
  const old = Array.from({ length: 110 }, () => sample({ runs: 1000, failed: 1000 }));
  const recent = Array.from({ length: 10 }, (_, at) =>
    sample({ runs: 6, failed: at === 0 ? 6 : 0, tookMs: { p50: at, p99: at * 10 } }),
  );
  expect(activityOf([...old, ...recent], 30_000)).toEqual({
    perMinute: 12,
    failedShare: 0.1,
    tookMs: { p50: 5, p99: 90 },
    waitedMs: undefined,
  });
});

test('without a run nothing is said about failures', () => {
  expect(activityOf([], 30_000)).toEqual({
    perMinute: 0,
    failedShare: undefined,
    tookMs: undefined,
    waitedMs: undefined,
  });
});

test('a plot draws a line for each stretch without a gap, within its own height', () => {
  const drawing = String(plot('plot', 'Runs "of" <all>', [{ values: [1, 2, undefined, 5], look: 'line' }]));
  const paths = [...drawing.matchAll(/d="M([^"]*)"/g)].map(([, path]) => path ?? '');
  expect(paths).toHaveLength(2);
  for (const path of paths) {
    for (const point of path.split('L')) {
      const [, y = '-1'] = point.split(' ');
      expect(Number(y)).toBeGreaterThanOrEqual(0);
      expect(Number(y)).toBeLessThanOrEqual(40);
    }
  }
  expect(drawing).not.toContain('<all>');
});
