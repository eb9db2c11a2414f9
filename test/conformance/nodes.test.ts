import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { Node } from '../../src/function/kinds/index.ts';
import { eventually } from '../harness/eventually.ts';
import { userOf } from '../harness/identity.ts';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
const BUILD_MS = 15 * 60_000;
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
    }, 60_000);
  }, BUILD_MS);

  afterAll(() => started.stop());

  it('pass', { timeout: 30 * 60_000 }, async () => {
    const tests = await e2eList('taint-eviction-node');
    const { kubeconfig } = workloads.plane;
    // One after the other: each taints a node that the others use.
    const report = await runE2e({ kubeconfig, tests, processes: 1, timeoutSeconds: 1700 });
    process.stdout.write(`${formatResults(report)}\n`);
    expect(report.results.filter((each) => !passed(each))).toEqual([]);
    expect(report.results.map(({ name }) => name)).toEqual(tests);
    expect(report.exitCode, report.log).toBe(0);
  });

  it('and the function did it as itself; the built-in controllers made no request', async () => {
    const requests = await workloads.audit.requests();
    const of = (user: string): AuditedRequest[] => requests.filter((each) => each.user === user);
    const writes = (user: string, resource: string, verb: string): number =>
      of(user).filter((each) => each.resource === resource && each.verb === verb && each.code < 300).length;
    for (const name of ['node-controller', 'taint-eviction-controller']) {
      expect(of(`system:serviceaccount:kube-system:${name}`)).toEqual([]);
    }
    // Others of kube-controller-manager did: the log would have shown them.
    expect(of('system:serviceaccount:kube-system:generic-garbage-collector').length).toBeGreaterThan(0);
    expect(writes(userOf('node-lifecycle'), 'pods', 'delete')).toBeGreaterThan(0);
    expect(writes(userOf('node-lifecycle'), 'pods/status', 'patch')).toBeGreaterThan(0);
    const own = of(userOf('gateway')).filter((each) => isWrite(each) && each.resource !== 'leases');
    expect(own).toEqual([]);
    // No right is missing in a rbac.yaml.
    expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
  });

  it('fail once the function has stopped', { timeout: BUILD_MS }, async () => {
    const { kubeconfig } = workloads.plane;
    await workloads.killLine();
    const { results, exitCode } = await runE2e({ kubeconfig, tests: [CONTROL], processes: 1, timeoutSeconds: 300 });
    const [result] = results;
    expect(result?.name).toBe(CONTROL);
    expect(result && passed(result)).toBe(false);
    // It did run, and did not fail at once for a reason of its own.
    expect(result?.seconds).toBeGreaterThan(30);
    expect(exitCode).not.toBe(0);
  });
});
