import { afterAll, beforeAll, expect, it } from 'vitest';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

const started = new Started();
let workloads: WorkloadPlane;

beforeAll(async () => {
  workloads = await WorkloadPlane.start(started, { nodes: 5 });
  await workloads.startLine();
}, 15 * 60_000);

afterAll(() => started.stop());

it(
  "Kubernetes' own tests of the garbage collector pass beside our ReplicaSets and Deployments",
  { timeout: 25 * 60_000 },
  async () => {
    const tests = await e2eList('garbagecollector');
    const { kubeconfig } = workloads.plane;
    const report = await runE2e({ kubeconfig, tests, processes: 6, timeoutSeconds: 1200 });
    process.stdout.write(`${formatResults(report)}\n`);
    expect(report.results.filter((each) => !passed(each))).toEqual([]);
    expect(report.results.map(({ name }) => name)).toEqual(tests);
    expect(report.exitCode, report.log).toBe(0);
  },
);
