import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The seconds of the files that take longest, as measured in whole runs of the gate. */
const SECONDS: Readonly<Record<string, number>> = {
  // npm test.
  'infra/release/release.test.ts': 22,
  'src/gateway/registration/function-endpoint.test.ts': 14,
  'src/gateway/registration/function-reconciler.test.ts': 9,
  'src/function/callback.test.ts': 7,
  'src/profiler/profiler.test.ts': 5,
  'test/integration/observability/prometheus.test.ts': 63,
  'test/integration/redis/lost-data.test.ts': 50,
  'test/integration/line/cold-start.test.ts': 50,
  'test/integration/workqueue/bullmq-work-queue.test.ts': 40,
  'test/integration/reconcile-functions/failing.test.ts': 33,
  'test/browser/pages.test.ts': 60,
  'test/integration/apiserver/cut-connection.test.ts': 30,
  'test/integration/line/signature.test.ts': 28,
  'test/integration/redis/memory-shares.test.ts': 50,
  'test/integration/server/reconcile-api.test.ts': 27,
  'test/integration/reconcile-functions/removed.test.ts': 25,
  'test/integration/manager/leader-handover.test.ts': 22,
  'test/integration/workqueue/replicas.test.ts': 22,
  'test/integration/cache/reader-users.test.ts': 18,
  'test/integration/cache-api/equal-answers.test.ts': 17,
  'test/contract/bullmq-work-queue.test.ts': 50,
  'test/integration/server/tls.test.ts': 17,
  'test/integration/line/source-scope.test.ts': 17,
  'test/integration/line/predicates.test.ts': 17,
  'test/integration/reconcile-functions/malformed.test.ts': 16,
  'test/integration/informer/scope.test.ts': 15,
  'test/integration/testing/control-plane.test.ts': 15,
  'test/integration/line/sources.test.ts': 14,
  'test/integration/line/batches.test.ts': 13,
  'test/integration/line/paused.test.ts': 12,
  'test/integration/informer/terms.test.ts': 12,
  'test/integration/server/queue-api.test.ts': 30,
  'test/contract/redis-reader.test.ts': 12,
  'test/integration/cli/doctor.test.ts': 12,
  'test/browser/barrier.test.ts': 12,
  'test/integration/redis/connect.test.ts': 10,
  'test/integration/webhooks/direct.test.ts': 10,
  'test/integration/credentials/renewal.test.ts': 10,
  'test/integration/line/secondary-keys.test.ts': 10,
  'test/integration/line/first-list.test.ts': 9,
  'test/integration/cache/large-indexes.test.ts': 8,
  'test/integration/cache-api/reading-time.test.ts': 20,
  'test/integration/cache/large-scripts.test.ts': 18,
  'test/integration/examples/03-webhooks.test.ts': 16,
  'test/integration/manager/shared-lease.test.ts': 16,
  'test/integration/credentials/bearers.test.ts': 15,
  // The gate.
  'test/conformance/workloads.test.ts': 140,
  'test/faults/gateway-faults.test.ts': 86,
  'test/faults/redis-sentinel.test.ts': 82,
  'test/integration/server/login.test.ts': 40,
  'test/faults/hostile-writes.test.ts': 90,
  'test/faults/replicas.test.ts': 61,
  'test/faults/hostile-answers.test.ts': 90,
  'test/faults/redis-faults.test.ts': 50,
  'test/integration/line/rights.test.ts': 60,
  'test/faults/redis-lost-writes.test.ts': 45,
  'test/faults/redis-runs-in-flight.test.ts': 43,
  'test/integration/credentials/killed.test.ts': 38,
  'test/integration/cli/npm-start.test.ts': 32,
  'test/integration/cli/start-on-cluster.test.ts': 32,
  'test/faults/redis-restarts.test.ts': 26,
  'test/faults/rolling-updates.test.ts': 25,
  // Nightly groups.
  'test/integration/cli/bench.test.ts': 300,
  'test/integration/cli/bench-controllers.test.ts': 250,
  'test/faults/platforms.test.ts': 180,
  'test/integration/line/namespace.test.ts': 30,
  'test/faults/clocks.test.ts': 30,
  'test/faults/rollouts.test.ts': 30,
};
/**
 * Puts the long files first, each with its share of the others behind it. A long file mostly waits, for a lease that
 * ends or a backoff: beside each other the long files would leave the processors idle, and the last would run alone.
 */
export function mixed<T>(files: readonly T[], secondsOf: (file: T) => number | undefined): T[] {
  const ofLong = (file: T): number => secondsOf(file) ?? 0;
  const long = files.filter((file) => ofLong(file) > 0).toSorted((a, b) => ofLong(b) - ofLong(a));
  const others = files.filter((file) => ofLong(file) === 0);
  const sum = long.reduce((seconds, file) => seconds + ofLong(file), 0);
  let seconds = 0;
  let placed = 0;
  const mixture = long.flatMap((file) => {
    seconds += ofLong(file);
    const share = others.slice(placed, Math.round((others.length * seconds) / sum));
    placed += share.length;
    return [file, ...share];
  });
  return [...mixture, ...others.slice(placed)];
}

/**
 * The order of the test files. Without the results of an earlier run, as in CI, vitest goes by the size of the files,
 * which says little about their time.
 */
export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const sorted = await super.sort(files);
    const secondsOf = ({ moduleId }: TestSpecification): number | undefined =>
      SECONDS[relative(this.ctx.config.root, moduleId)];
    const projects = Map.groupBy(sorted, ({ project }) => project.name);
    return [...projects.values()].flatMap((each) => mixed(each, secondsOf));
  }
}
