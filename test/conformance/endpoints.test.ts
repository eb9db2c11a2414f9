import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Started } from '../harness/started.ts';
import { ENDPOINT_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { BUILD_MS, expectListPasses, expectOwnWork, expectTestsFail } from './expectations.ts';

/** Those that need one of the functions. The others ask for what the apiserver itself does. */
const NEEDING_A_FUNCTION = [
  'EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service',
  'EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no pods',
  'EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete',
  'EndpointsController should create Endpoints for Pods matching a Service',
  'EndpointsController should create and delete Endpoints for a Service with a selector that matches no pods',
];
const CONTROLLERS = ['endpointslice-controller', 'endpointslicemirroring-controller', 'endpoint-controller'];

describe("Kubernetes' own tests of EndpointSlices and Endpoints, on our functions", () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { nodes: 5, functions: ENDPOINT_FUNCTIONS });
  }, BUILD_MS);

  afterAll(() => started.stop());

  it('fail while the functions do not run, where they need them', { timeout: BUILD_MS }, async () => {
    const all = await e2eList('endpoints');
    const tests = all.filter((name) => NEEDING_A_FUNCTION.some((part) => name.includes(part)));
    expect(tests).toHaveLength(NEEDING_A_FUNCTION.length);
    await expectTestsFail(workloads, tests, { timeoutSeconds: 30 });
  });

  it('pass with them', { timeout: 15 * 60_000 }, async () => {
    await workloads.startLine();
    await expectListPasses(workloads, 'endpoints', { processes: 6, timeoutSeconds: 600 });
  });

  it('and the functions did it, each as itself; the built-in controllers made no request', async () => {
    const writes = await expectOwnWork(workloads, CONTROLLERS);
    for (const verb of ['create', 'update']) {
      expect(writes('endpointslice', 'endpointslices', verb), verb).toBeGreaterThan(0);
      expect(writes('endpointslice-mirroring', 'endpointslices', verb), verb).toBeGreaterThan(0);
      expect(writes('endpoints', 'endpoints', verb), verb).toBeGreaterThan(0);
    }
  });
});
