import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { userOf } from '../harness/identity.ts';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
const BUILD_MS = 15 * 60_000;
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
    const { kubeconfig } = workloads.plane;
    const tests = controlAll ? await e2eList('replicaset-deployment') : SCALE_TESTS;
    // All at once: they do nothing but wait.
    const options = { processes: tests.length, timeoutSeconds: controlAll ? 180 : 20 };
    const { results, exitCode, log } = await runE2e({ kubeconfig, tests, ...options });
    const ofTests = results.filter(({ name }) => tests.includes(name));
    expect(ofTests.filter(passed)).toEqual([]);
    expect(exitCode).not.toBe(0);
    // They did run, and not one failed at once for a reason of its own.
    const ran = ofTests.filter(({ seconds }) => seconds > 5).map(({ name }) => name);
    if (!controlAll) expect(ran, log).toEqual(tests);
  });

  it('pass with them', { timeout: 15 * 60_000 }, async () => {
    await workloads.startLine();
    const tests = await e2eList('replicaset-deployment');
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
    const writes = (user: string, resource: string, verb = 'create'): number =>
      of(user).filter((each) => each.resource === resource && each.verb === verb && each.code < 300).length;
    for (const name of ['replicaset-controller', 'deployment-controller']) {
      expect(of(`system:serviceaccount:kube-system:${name}`)).toEqual([]);
    }
    // Others of kube-controller-manager did: the log would have shown them.
    expect(of('system:serviceaccount:kube-system:generic-garbage-collector').length).toBeGreaterThan(0);
    expect(writes(userOf('replicaset'), 'pods')).toBeGreaterThan(0);
    expect(writes(userOf('replicaset'), 'pods', 'delete')).toBeGreaterThan(0);
    expect(writes(userOf('replicaset'), 'replicasets/status', 'update')).toBeGreaterThan(0);
    expect(writes(userOf('deployment'), 'replicasets')).toBeGreaterThan(0);
    expect(writes(userOf('deployment'), 'replicasets', 'patch')).toBeGreaterThan(0);
    expect(writes(userOf('deployment'), 'deployments/status', 'update')).toBeGreaterThan(0);
    // The gateway writes where it dispatches (ADR 0006), and nothing else.
    const own = of(userOf('gateway')).filter((each) => isWrite(each) && each.resource !== 'leases');
    expect(own).toEqual([]);
    // No right is missing in a rbac.yaml.
    expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
  });
});
