import { existsSync, globSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { CountsReporter } from './counts-reporter.ts';
import { LongestFirst } from './longest-first.ts';

const root = resolve(import.meta.dirname, '../..');

/** Tests that bound times: each brings all that it needs. */
const ALONE = ['test/faults/hostile-tenant.test.ts'];

/**
 * What `npm test` leaves to `npm run test:long`: processes that are killed, cut off or frozen, Kubernetes' own tests,
 * and those that take longer than 20 s because they try every case or wait for real time.
 */
const LONG = [
  'test/faults/**/*.test.ts',
  'test/conformance/**/*.test.ts',
  'test/contract/cache-history.property.test.ts',
  'test/integration/cli/{bad-input,bench,bench-controllers,npm-start,start-on-cluster,manifest}.test.ts',
  'test/integration/credentials/limits.test.ts',
  'test/integration/helm/*.test.ts',
  'test/integration/informer/{any-resource,events}.test.ts',
  'test/integration/line/{deployment,endpoints,hash-slots,namespace,nodes,redis-users,rights}.test.ts',
  'test/integration/packages/*.test.ts',
  'test/integration/reconcile-functions/{names,life,processor-time}.test.ts',
  'test/integration/server/{dashboard-commands,login-unavailable,profiles}.test.ts',
  'test/integration/workqueue/{history,mutations,refused-starts}.test.ts',
  'test/integration/webhooks/{manifest,own-certificate,rotation}.test.ts',
];

/** What runs only when it is asked for, and by which command. */
const ASKED_FOR = [
  { file: 'test/faults/overshoot.test.ts', variable: 'OVERSHOOT_RUNS', command: 'npm run soak overshoot' },
  { file: 'test/faults/builds.test.ts', variable: 'OLD_BUILD', command: 'npm run soak builds' },
  { file: 'test/conformance/nodes.test.ts', variable: 'CONFORMANCE_NODES', command: 'npm run conformance nodes' },
  {
    file: 'test/conformance/endpoints.test.ts',
    variable: 'CONFORMANCE_ENDPOINTS',
    command: 'npm run conformance endpoints',
  },
  {
    file: 'test/conformance/namespace.test.ts',
    variable: 'CONFORMANCE_NAMESPACE',
    command: 'npm run conformance namespace',
  },
  {
    file: 'test/conformance/garbage-collector.test.ts',
    variable: 'CONFORMANCE_GC',
    command: 'npm run conformance gc',
  },
].filter(({ variable }) => process.env[variable] === undefined);

/** What this run leaves out, said at its end. */
function leftOut(): string[] {
  const projects = process.argv.filter((_, at) => process.argv[at - 1] === '--project');
  const files = globSync([...LONG, ...ALONE], { cwd: root }).filter(
    (file) => !ASKED_FOR.some((each) => each.file === file),
  );
  const long = projects.length > 0 && !projects.includes('long');
  return [
    ...(long && files.length > 0 ? [`${new Set(files).size} files: npm run test:long`] : []),
    ...ASKED_FOR.filter(({ file }) => existsSync(resolve(root, file))).map(
      ({ file, command }) => `${file}: ${command}`,
    ),
  ];
}

/**
 * Four projects: `unit` needs nothing but Node and goes first; `system` needs the real Redis and apiserver, which its
 * global setup provides (cold: minutes); `long` is more of that; `alone` goes last and measures times, which need the
 * machine to itself. `vitest run --project unit` is the quick one.
 */
export default defineConfig({
  root,
  // Our own package by name (levelhook/function) means its sources. Only this list counts for what runs in Node; vitest
  // hands it on to its workers, and so to worker threads and forks of a test, but not to a process that is spawned.
  resolve: { alias: [{ find: /^@levelhook\/function$/, replacement: resolve(root, 'src/function/index.ts') }] },
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
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new CountsReporter(leftOut())],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [
            'src/**/*.test.ts',
            'functions/**/*.test.ts',
            'infra/{checks,crds,observability,release}/**/*.test.ts',
          ],
          exclude: ['functions/**/*.cluster.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: [
            'test/{contract,integration,browser}/**/*.test.ts',
            // A function's own test on a real apiserver, as its author would write it.
            'functions/**/*.cluster.test.ts',
          ],
          exclude: LONG,
          globalSetup: ['test/harness/global-setup.ts'],
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: LONG,
          exclude: [...ALONE, ...ASKED_FOR.map(({ file }) => file)],
          globalSetup: ['test/harness/global-setup.ts'],
          sequence: { groupOrder: 2 },
          // Most of them wait for a process to come back, or for time to pass.
          maxWorkers: 3,
        },
      },
      { extends: true, test: { name: 'alone', include: ALONE, sequence: { groupOrder: 3 } } },
    ],
  },
});
