import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { BUILD_MS, expectListPasses, expectOwnWork, expectTestsFail } from './expectations.ts';

/** Lets all tests of the list fail without the functions: `npm run conformance control`. */
const controlAll = process.env['CONFORMANCE_CONTROL'] === 'all';
/** Otherwise one of each controller's, that passes within three seconds: after twenty it can be said to have failed. */
const SCALE_TESTS = [
  '[sig-apps] ReplicaSet Replicaset should have a working scale subresource [Conformance]',
  '[sig-apps] Deployment Deployment should have a working scale subresource [Conformance]',
];

describe("Kubernetes' own tests of ReplicaSets and Deployments, on our functions", () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { nodes: 5 });
  }, BUILD_MS);

  afterAll(() => started.stop());

  it('fail while the functions do not run', { timeout: BUILD_MS }, async () => {
    const tests = controlAll ? await e2eList('replicaset-deployment') : SCALE_TESTS;
    // Of all tests some fail at once.
    if (controlAll) return expectTestsFail(workloads, tests, { timeoutSeconds: 180, waitedSeconds: 0 });
    // A slow machine needs most of the first time to start the programs.
    const fail = (timeoutSeconds: number): Promise<void> => expectTestsFail(workloads, tests, { timeoutSeconds });
    return fail(20).catch(() => fail(60));
  });

  it('pass with them', { timeout: 15 * 60_000 }, async () => {
    await workloads.startLine();
    await expectListPasses(workloads, 'replicaset-deployment', { processes: 6, timeoutSeconds: 600 });
  });

  it('and the functions did it, each as itself; the built-in controllers made no request', async () => {
    const writes = await expectOwnWork(workloads, ['replicaset-controller', 'deployment-controller']);
    expect(writes('replicaset', 'pods', 'create')).toBeGreaterThan(0);
    expect(writes('replicaset', 'pods', 'delete')).toBeGreaterThan(0);
    expect(writes('replicaset', 'replicasets/status', 'update')).toBeGreaterThan(0);
    expect(writes('deployment', 'replicasets', 'create')).toBeGreaterThan(0);
    expect(writes('deployment', 'replicasets', 'patch')).toBeGreaterThan(0);
    expect(writes('deployment', 'deployments/status', 'update')).toBeGreaterThan(0);
  });
});
