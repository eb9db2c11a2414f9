import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { userOf } from '../harness/identity.ts';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
const BUILD_MS = 15 * 60_000;
/** One of each controller's, that is done in three seconds: all others wait for the same things, most of them for minutes. */
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
    const { results, exitCode } = await runE2e({
      kubeconfig,
      tests: SCALE_TESTS,
      processes: 2,
      timeoutSeconds: 20,
    });
    expect(results.filter(({ name }) => SCALE_TESTS.includes(name)).filter(passed)).toEqual([]);
    expect(exitCode).not.toBe(0);
    // They did run, and waited for what nobody did.
    const waited = results.filter(({ name, seconds }) => SCALE_TESTS.includes(name) && seconds > 5);
    expect(waited.map(({ name }) => name)).toEqual(SCALE_TESTS);
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
    expect(writes(userOf('deployment'), 'replicasets', 'update')).toBeGreaterThan(0);
    expect(writes(userOf('deployment'), 'deployments/status', 'update')).toBeGreaterThan(0);
    expect(of(userOf('gateway')).filter(isWrite)).toEqual([]);
    // Nobody was refused for a right that a rbac.yaml has left out; a quota's refusal is 403 too, and comes to a create of a pod.
    const refused = requests.filter(({ user, code }) => user.startsWith(userOf('')) && code === 403);
    expect(refused.filter(({ resource, verb }) => !(resource === 'pods' && verb === 'create'))).toEqual([]);
  });
});
