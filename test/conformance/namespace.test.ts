import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { BUILD_MS, expectListPasses, expectOwnWork, expectTestsFail } from './expectations.ts';

/** It waits for the end of a Namespace with a Service, which takes ten seconds with the function. */
const CONTROL_TEST =
  '[sig-api-machinery] Namespaces [Serial] should ensure that all services are removed when a namespace is deleted [Conformance]';

describe("Kubernetes' own tests of Namespaces, on our function", () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { functions: ['namespace'], nodes: 2 });
  }, BUILD_MS);

  afterAll(() => started.stop());

  it('fail while it does not run', { timeout: BUILD_MS }, () =>
    expectTestsFail(workloads, [CONTROL_TEST], { timeoutSeconds: 40, waitedSeconds: 20 }),
  );

  it('pass with it', { timeout: 20 * 60_000 }, async () => {
    await workloads.startLine();
    // Most of them run alone by their own choice.
    await expectListPasses(workloads, 'namespace', { processes: 2, timeoutSeconds: 900 });
  });

  it('and the function did it, as itself; the built-in controller made no request', async () => {
    const writes = await expectOwnWork(workloads, ['namespace-controller']);
    expect(writes('namespace', 'namespaces/finalize', 'update')).toBeGreaterThan(100);
    expect(writes('namespace', 'namespaces/status', 'patch')).toBeGreaterThan(100);
    expect(writes('namespace', 'pods', 'deletecollection')).toBeGreaterThan(0);
    expect(writes('namespace', 'services', 'deletecollection')).toBeGreaterThan(0);
  });
});
