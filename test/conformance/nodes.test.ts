import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Node } from '../../src/function/kinds/index.ts';
import { eventually } from '../harness/eventually.ts';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { BUILD_MS, expectListPasses, expectOwnWork, expectTestsFail } from './expectations.ts';

/** Passes within a minute, and fails after it when nobody evicts. */
const CONTROL = '[sig-node] NoExecuteTaintManager Single Pod [Serial] evicts pods from tainted nodes';

describe("Kubernetes' own tests of taints and nodes, on our functions", () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { functions: ['node-lifecycle'], nodes: 3 });
    await workloads.startLine();
    // New nodes are tainted as not ready, and the suite begins with nodes that take pods.
    await eventually(async () => {
      const { items } = await workloads.cluster.list(Node);
      expect(items.flatMap(({ spec }) => spec?.taints ?? [])).toEqual([]);
    });
  }, BUILD_MS);

  afterAll(() => started.stop());

  it('pass', { timeout: 30 * 60_000 }, () =>
    // One after the other: each taints a node that the others use.
    expectListPasses(workloads, 'taint-eviction-node', { processes: 1, timeoutSeconds: 1700 }),
  );

  it('and the function did it as itself; the built-in controllers made no request', async () => {
    const writes = await expectOwnWork(workloads, ['node-controller', 'taint-eviction-controller']);
    expect(writes('node-lifecycle', 'pods', 'delete')).toBeGreaterThan(0);
    expect(writes('node-lifecycle', 'pods/status', 'patch')).toBeGreaterThan(0);
  });

  it('fail once the function has stopped', { timeout: BUILD_MS }, async () => {
    await workloads.killLine();
    await expectTestsFail(workloads, [CONTROL], { timeoutSeconds: 300, waitedSeconds: 30 });
  });
});
