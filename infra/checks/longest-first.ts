import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that take longest, the longest first, as measured in whole runs of the gate. */
const LONGEST = [
  'test/integration/cli/bench.test.ts',
  'test/integration/cli/bench-controllers.test.ts',
  'test/faults/platforms.test.ts',
  'test/conformance/workloads.test.ts',
  'test/faults/gateway-faults.test.ts',
  'test/faults/replicas.test.ts',
  'infra/checks/package.test.ts',
  'test/faults/rolling-updates.test.ts',
  'test/integration/server/login.test.ts',
  'test/faults/hostile-answers.test.ts',
  'test/integration/line/rights.test.ts',
  'test/faults/hostile-writes.test.ts',
  'test/faults/redis-restarts.test.ts',
  'test/faults/redis-faults.test.ts',
  'test/faults/redis-sentinel.test.ts',
  'test/integration/redis/memory-shares.test.ts',
  'test/integration/cli/npm-start.test.ts',
  'test/integration/line/namespace.test.ts',
  'test/faults/clocks.test.ts',
  'test/faults/rollouts.test.ts',
  'test/browser/pages.test.ts',
  'test/integration/cli/doctor.test.ts',
  'test/contract/bullmq-work-queue.test.ts',
  'test/integration/line/source-scope.test.ts',
  'test/integration/informer/settings.test.ts',
  'test/integration/testing/control-plane.test.ts',
  'test/integration/workqueue/replicas.test.ts',
  'test/contract/cache-reading.property.test.ts',
  'test/integration/cli/types.test.ts',
  'test/integration/line/cold-start.test.ts',
  'test/integration/cache-api/equal-answers.test.ts',
  'test/integration/server/queue-api.test.ts',
];

/**
 * Starts with the files that take longest, so that none of them runs on alone at the end. Without the results of an
 * earlier run, as in CI, vitest goes by the size of the files, which says little about their time.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.indexOf(relative(this.ctx.config.root, moduleId));
      return at < 0 ? LONGEST.length : at;
    };
    const projects = Map.groupBy(sorted, ({ project }) => project.name);
    return [...projects.values()].flatMap((each) => each.toSorted((a, b) => rank(a) - rank(b)));
  }
}
