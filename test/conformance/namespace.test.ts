import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditedRequest } from '../harness/audit-log.ts';
import { userOf } from '../harness/identity.ts';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
const BUILD_MS = 15 * 60_000;
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

  it('fail while it does not run', { timeout: BUILD_MS }, async () => {
    const { kubeconfig } = workloads.plane;
    const tests = [CONTROL_TEST];
    const { results, exitCode, log } = await runE2e({ kubeconfig, tests, processes: 1, timeoutSeconds: 40 });
    const ofTests = results.filter(({ name }) => tests.includes(name));
    expect(ofTests.filter(passed)).toEqual([]);
    expect(exitCode).not.toBe(0);
    // It did run, and waited.
    expect(
      ofTests.filter(({ seconds }) => seconds > 20).map(({ name }) => name),
      log,
    ).toEqual(tests);
  });

  it('pass with it', { timeout: 20 * 60_000 }, async () => {
    await workloads.startLine();
    const tests = await e2eList('namespace');
    const { kubeconfig } = workloads.plane;
    // Most of them run alone by their own choice.
    const report = await runE2e({ kubeconfig, tests, processes: 2, timeoutSeconds: 900 });
    process.stdout.write(`${formatResults(report)}\n`);
    expect(report.results.filter((each) => !passed(each))).toEqual([]);
    expect(report.results.map(({ name }) => name)).toEqual(tests);
    expect(report.exitCode, report.log).toBe(0);
  });

  it('and the function did it, as itself; the built-in controller made no request', async () => {
    const requests = await workloads.audit.requests();
    const of = (user: string): AuditedRequest[] => requests.filter((each) => each.user === user);
    const writes = (resource: string, verb: string): number =>
      of(userOf('namespace')).filter((each) => each.resource === resource && each.verb === verb && each.code < 300)
        .length;
    expect(of('system:serviceaccount:kube-system:namespace-controller')).toEqual([]);
    // Others of kube-controller-manager did: the log would have shown them.
    expect(of('system:serviceaccount:kube-system:service-account-controller').length).toBeGreaterThan(0);
    expect(writes('namespaces/finalize', 'update')).toBeGreaterThan(100);
    expect(writes('namespaces/status', 'patch')).toBeGreaterThan(100);
    expect(writes('pods', 'deletecollection')).toBeGreaterThan(0);
    expect(writes('services', 'deletecollection')).toBeGreaterThan(0);
    // No right is missing in a rbac.yaml.
    expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
  });
});
