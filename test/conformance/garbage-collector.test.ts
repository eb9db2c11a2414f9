import { afterAll, beforeAll, it } from 'vitest';
import { Started } from '../harness/started.ts';
import { WorkloadPlane } from '../harness/workload-plane.ts';
import { BUILD_MS, expectListPasses } from './expectations.ts';

const started = new Started();
let workloads: WorkloadPlane;

beforeAll(async () => {
  workloads = await WorkloadPlane.start(started, { nodes: 5 });
  await workloads.startLine();
}, BUILD_MS);

afterAll(() => started.stop());

it(
  "Kubernetes' own tests of the garbage collector pass beside our ReplicaSets and Deployments",
  { timeout: 25 * 60_000 },
  () => expectListPasses(workloads, 'garbagecollector', { processes: 6, timeoutSeconds: 1200 }),
);
