import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { CountsReporter } from './counts-reporter.ts';

/** Tests that bound times: each brings all that it needs. */
const ALONE = ['test/faults/hostile-tenant.test.ts'];

/**
 * Three projects: `unit` needs nothing but Node and goes first; `system` needs the real Redis and apiserver, which its
 * global setup provides (cold: minutes); `alone` goes last and measures times, which need the machine to itself.
 * `vitest run --project unit` is the quick one.
 */
export default defineConfig({
  root: resolve(import.meta.dirname, '../..'),
  // Our own package by name (levelhook/function) means its sources. Only this list counts for what runs in Node; vitest
  // hands it on to its workers, and so to worker threads and forks of a test, but not to a process that is spawned.
  ssr: { resolve: { conditions: ['levelhook-source', 'node'] } },
  test: {
    pool: 'forks',
    // Two cores are the smallest machine we test on, and each system file brings an apiserver.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    // A test that passes at the second try is a finding, not a pass.
    retry: 0,
    allowOnly: false,
    reporters: ['default', new CountsReporter()],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'functions/**/*.test.ts', 'infra/{checks,crds}/**/*.test.ts'],
          exclude: ['functions/**/*.cluster.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: [
            'test/{contract,integration,faults,conformance,browser}/**/*.test.ts',
            // A function's own test on a real apiserver, as its author would write it.
            'functions/**/*.cluster.test.ts',
          ],
          exclude: [
            ...ALONE,
            // Five minutes by itself: `npm run soak:overshoot`.
            ...(process.env['OVERSHOOT_RUNS'] === undefined ? ['test/faults/overshoot.test.ts'] : []),
            // Three minutes by itself: `npm run conformance:gc`.
            ...(process.env['CONFORMANCE_GC'] === undefined ? ['test/conformance/garbage-collector.test.ts'] : []),
          ],
          globalSetup: ['test/harness/global-setup.ts'],
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: 'alone', include: ALONE, sequence: { groupOrder: 2 } } },
    ],
  },
});
