/**
 * `npm run bench NAME`, `npm run soak NAME`, `npm run conformance NAME`: long runs and measurements, by name. Passes
 * further arguments to the program. Exits with the program's code, and with 2 for an unknown name.
 */
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

interface Named {
  /** What the run needs beside the machine's environment. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly command: readonly string[];
}

const bench = (program: string): Named => ({ command: ['node', '--conditions=levelhook-source', program] });

/** Test files of a group in `infra/checks/test-groups.ts`, which has the variables of nightly groups. */
const tests = (group: string, ...files: readonly string[]): Named => ({
  command: ['npx', 'vitest', 'run', '--config', 'infra/checks/vitest.config.ts', '--project', group, ...files],
});

const RUNS: Readonly<Record<string, Readonly<Record<string, Named>>>> = {
  bench: {
    read: bench('test/bench/read.ts'),
    dispatch: bench('test/bench/dispatch.ts'),
    line: bench('test/bench/line.ts'),
    latency: bench('test/bench/latency.ts'),
    queue: bench('test/bench/queue.ts'),
    cache: bench('test/bench/cache-fill.ts'),
    codec: bench('test/bench/codec.ts'),
    namespaces: bench('test/bench/namespaces.ts'),
    rollout: bench('test/bench/rollout.ts'),
    endpoints: bench('test/bench/endpoints.ts'),
    nodes: bench('test/bench/nodes.ts'),
    heartbeats: bench('test/bench/heartbeats.ts'),
    start: bench('test/bench/start.ts'),
    'ten-minutes': bench('test/bench/ten-minutes.ts'),
    failover: bench('test/bench/failover.ts'),
    replicas: bench('test/bench/replicas.ts'),
    dashboard: bench('test/bench/dashboard.ts'),
    rest: bench('test/bench/rest.ts'),
    webhooks: bench('test/bench/webhooks.ts'),
    platforms: bench('test/bench/platforms.ts'),
  },
  soak: {
    rollouts: tests('soaks', 'test/faults/rollouts.test.ts'),
    hostile: tests('soaks', 'test/faults/hostile-tenant.test.ts'),
    'come-and-go': tests('soaks', 'test/faults/functions-come-and-go.test.ts'),
    overshoot: tests('soaks', 'test/faults/overshoot.test.ts'),
    'read-your-writes': tests('soaks', 'test/faults/read-your-writes.test.ts'),
    histories: tests('soaks', 'test/contract/cache-history.property.test.ts'),
    queue: tests(
      'soaks',
      'test/integration/workqueue/history.test.ts',
      'test/integration/workqueue/mutations.test.ts',
      'test/contract/work-queue-history.property.test.ts',
    ),
    'redis-faults': tests(
      'soaks',
      'test/faults/redis-cluster.test.ts',
      'test/faults/redis-faults.test.ts',
      'test/faults/redis-runs-in-flight.test.ts',
      'test/faults/redis-sentinel.test.ts',
    ),
    'redis-full': tests('soaks', 'test/faults/redis-full.test.ts'),
    churn: tests('soaks', 'test/faults/churn.test.ts'),
    replicas: tests('soaks', 'test/faults/replicas.test.ts'),
  },
  conformance: {
    workloads: tests('gate', 'test/conformance/workloads.test.ts'),
    endpoints: tests('conformance', 'test/conformance/endpoints.test.ts'),
    nodes: tests('conformance', 'test/conformance/nodes.test.ts'),
    gc: tests('conformance', 'test/conformance/garbage-collector.test.ts'),
    namespace: tests('conformance', 'test/conformance/namespace.test.ts'),
    control: {
      variables: { CONFORMANCE_CONTROL: 'all' },
      ...tests('gate', 'test/conformance/workloads.test.ts', '-t', 'fail while'),
    },
  },
};

const [kind = '', name = '', ...rest] = process.argv.slice(2);
const runs = new Map(Object.entries(RUNS[kind] ?? {}));
const named = runs.get(name);
if (named) {
  const [program = '', ...given] = named.command;
  const { status } = spawnSync(program, [...given, ...rest], {
    cwd: resolve(import.meta.dirname, '..'),
    env: { ...process.env, ...named.variables },
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
} else {
  const asked = name === '' ? `Name a run: npm run ${kind} NAME` : `There is no ${kind} ${JSON.stringify(name)}`;
  process.stderr.write(`${asked}. The names are ${[...runs.keys()].join(', ')}.\n`);
  process.exitCode = 2;
}
