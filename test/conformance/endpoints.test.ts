import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { userOf } from '../harness/identity.ts';
import { Started } from '../harness/started.ts';
import { ENDPOINT_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
const BUILD_MS = 15 * 60_000;
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
    const { kubeconfig } = workloads.plane;
    const all = await e2eList('endpoints');
    const tests = all.filter((name) => NEEDING_A_FUNCTION.some((part) => name.includes(part)));
    expect(tests).toHaveLength(NEEDING_A_FUNCTION.length);
    // All at once: they do nothing but wait.
    const { results, exitCode, log } = await runE2e({
      kubeconfig,
      tests,
      processes: tests.length,
      timeoutSeconds: 30,
    });
    const ofTests = results.filter(({ name }) => tests.includes(name));
    expect(ofTests.filter(passed)).toEqual([]);
    expect(exitCode).not.toBe(0);
    // They did run, and not one failed at once for a reason of its own.
    expect(
      ofTests.filter(({ seconds }) => seconds > 5).map(({ name }) => name),
      log,
    ).toEqual(tests);
  });

  it('pass with them', { timeout: 15 * 60_000 }, async () => {
    await workloads.startLine();
    const tests = await e2eList('endpoints');
    const { kubeconfig } = workloads.plane;
    const report = await runE2e({ kubeconfig, tests, processes: 6, timeoutSeconds: 600 });
    process.stdout.write(`${formatResults(report)}\n`);
    expect(report.results.filter((each) => !passed(each))).toEqual([]);
    expect(report.results.map(({ name }) => name)).toEqual(tests);
    expect(report.exitCode, report.log).toBe(0);
  });

  it('and the functions did it, each as itself; the built-in controllers made no request', async () => {
    const requests = await workloads.audit.requests();
    const of = (user: string): AuditedRequest[] => requests.filter((each) => each.user === user);
    const writes = (user: string, resource: string, verb: string): number =>
      of(user).filter((each) => each.resource === resource && each.verb === verb && each.code < 300).length;
    for (const name of CONTROLLERS) expect(of(`system:serviceaccount:kube-system:${name}`)).toEqual([]);
    // Others of kube-controller-manager did: the log would have shown them.
    expect(of('system:serviceaccount:kube-system:generic-garbage-collector').length).toBeGreaterThan(0);
    for (const verb of ['create', 'update']) {
      expect(writes(userOf('endpointslice'), 'endpointslices', verb), verb).toBeGreaterThan(0);
      expect(writes(userOf('endpointslice-mirroring'), 'endpointslices', verb), verb).toBeGreaterThan(0);
      expect(writes(userOf('endpoints'), 'endpoints', verb), verb).toBeGreaterThan(0);
    }
    // The gateway writes where it dispatches (ADR 0006), and nothing else.
    const own = of(userOf('gateway')).filter((each) => isWrite(each) && each.resource !== 'leases');
    expect(own).toEqual([]);
    // No right is missing in a rbac.yaml.
    expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
  });
});
