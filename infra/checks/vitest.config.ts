import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { CountsReporter } from './counts-reporter.ts';
import { FileOrder } from './file-order.ts';
import { GATE, GATE_ALONE, GATE_LATE, NIGHTLY, SYSTEM, UNIT } from './test-groups.ts';

const root = resolve(import.meta.dirname, '../..');

/** Unit tests wait for a third of their time. */
const UNIT_WORKERS = 4;
/**
 * Five files of system tests keep two cores busy, as long ones mostly wait (`file-order.ts`). With more, tests that
 * bound a time measure the other files.
 */
const SYSTEM_WORKERS = 5;
/** Files of the gate and of nightly groups start several processes each, so three of them keep two cores busy. */
const GATE_WORKERS = 3;

/** What `npm test` leaves to the gate and to nightly groups. */
const LATER = [
  ...GATE,
  ...GATE_LATE,
  ...GATE_ALONE,
  ...Object.values(NIGHTLY).flatMap(({ files, repeats = false }) => (repeats ? [] : files)),
];
const GATE_FILES = [...GATE, ...GATE_LATE, ...GATE_ALONE];

/** What this run leaves out, said at its end. */
function leftOut(): string[] {
  const projects = process.argv.filter((_, at) => process.argv[at - 1] === '--project');
  const has = (name: string): boolean => projects.length === 0 || projects.includes(name);
  const left = [
    { command: 'npm run test:gate', files: GATE_FILES, isHere: has('gate') },
    ...Object.entries(NIGHTLY).map(([name, { files }]) => ({
      command: `npm run test:nightly ${name}`,
      files: files.filter((file) => !GATE_FILES.includes(file)),
      isHere: has(name),
    })),
  ];
  return left.flatMap(({ command, files, isHere }) => {
    const { length } = isHere ? [] : globSync([...files], { cwd: root });
    return length === 0 ? [] : [`${length} files: ${command}`];
  });
}

/**
 * `npm test` is `unit`, which needs nothing but Node and goes first, and `system`, which needs the real Redis and
 * apiserver that its global setup provides (cold: minutes). `npm run test:gate` is `gate` and after it `gate-late` and,
 * with the machine to itself, `gate-alone`. Each nightly group of `test-groups.ts` is a project with its name; a
 * variable of the caller's wins over the group's, as in `HOSTILE_SECONDS=3600 npm run soak hostile`.
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
    // For what hangs: a machine with eight times the load takes eight times as long, and is right.
    testTimeout: 180_000,
    hookTimeout: 240_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 60_000 } },
    // A test that passes at the second try is a finding, not a pass.
    retry: 0,
    allowOnly: false,
    sequence: { sequencer: FileOrder },
    reporters: ['default', new CountsReporter(leftOut())],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [...UNIT],
          exclude: ['functions/**/*.cluster.test.ts', ...LATER],
          sequence: { groupOrder: 0 },
          // They share nothing that lives in a module, and loading it anew for each file took a third of their time.
          isolate: false,
          maxWorkers: UNIT_WORKERS,
        },
      },
      {
        extends: true,
        test: {
          name: 'system',
          include: [...SYSTEM],
          exclude: LATER,
          globalSetup: ['test/harness/global-setup.ts'],
          setupFiles: ['test/harness/failure-log.ts'],
          sequence: { groupOrder: 1 },
          // A file starts its gateway in 0.1 s where another has loaded it (`test/harness/opened.ts`).
          isolate: false,
          maxWorkers: SYSTEM_WORKERS,
        },
      },
      {
        extends: true,
        test: {
          name: 'gate',
          include: [...GATE],
          globalSetup: ['test/harness/global-setup.ts'],
          setupFiles: ['test/harness/failure-log.ts'],
          sequence: { groupOrder: 2 },
          isolate: false,
          maxWorkers: GATE_WORKERS,
        },
      },
      {
        extends: true,
        test: {
          name: 'gate-late',
          include: [...GATE_LATE],
          globalSetup: ['test/harness/global-setup.ts'],
          setupFiles: ['test/harness/failure-log.ts'],
          sequence: { groupOrder: 3 },
        },
      },
      {
        extends: true,
        test: {
          name: 'gate-alone',
          include: [...GATE_ALONE],
          globalSetup: ['test/harness/global-setup.ts'],
          setupFiles: ['test/harness/failure-log.ts'],
          sequence: { groupOrder: 4 },
          maxWorkers: 1,
        },
      },
      ...Object.entries(NIGHTLY).map(([name, { files, variables = {}, alone = false }], at) => ({
        extends: true as const,
        test: {
          name,
          include: [...files],
          env: Object.fromEntries(Object.entries(variables).filter(([name]) => process.env[name] === undefined)),
          globalSetup: ['test/harness/global-setup.ts'],
          setupFiles: ['test/harness/failure-log.ts'],
          // One group after the other: each has an apiserver of its own.
          sequence: { groupOrder: 5 + at },
          maxWorkers: alone ? 1 : GATE_WORKERS,
        },
      })),
    ],
  },
});
