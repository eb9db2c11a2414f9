import { afterAll, describe, expect, it } from 'vitest';
import { EndpointSlice, Pod } from '../../../src/function/kinds/index.ts';
import { EndpointObserver, type EndpointState } from '../../harness/endpoint-state.ts';
import { eventually } from '../../harness/eventually.ts';
import { CONTROLLERS_OF_NODES, ServiceChurn, type ServiceLoad } from '../../harness/service-churn.ts';
import { Started } from '../../harness/started.ts';
import { ENDPOINT_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';

/** In the last Service's place there is one with more pods than a slice holds, in the second load. */
const LOADS: readonly ServiceLoad[] = [
  { services: 20, pods: 120, nodes: 6, rounds: 4 },
  { services: 2, pods: 460, nodes: 6, rounds: 2 },
];
const LIMIT_MS = 120_000;

/** The end states of the loads, each in a namespace of its own. */
async function runLoads(workloads: WorkloadPlane): Promise<EndpointState[]> {
  const states: EndpointState[] = [];
  for (const [at, load] of LOADS.entries()) {
    const namespace = `load-${at}`;
    const churn = new ServiceChurn(workloads.cluster, namespace, load);
    await churn.prepare(at > 0);
    const observer = await EndpointObserver.start(workloads.cluster, namespace);
    await churn.run();
    await observer.untilRight(LIMIT_MS);
    states.push(observer.state());
    await observer.stop();
  }
  return states;
}

describe('endpoints, EndpointSlices and their mirrors, by our functions', () => {
  const started = new Started();
  const startedBuiltIn = new Started();
  const withoutControllers = CONTROLLERS_OF_NODES;
  let workloads: WorkloadPlane;
  let found: EndpointState[];

  afterAll(async () => {
    await started.stop();
    await startedBuiltIn.stop();
  });

  const triggers = () => workloads.gateway.process.lines.filter(({ msg }) => msg === 'trigger');

  it('reach the state that a script asks for', { timeout: 300_000 }, async () => {
    workloads = await WorkloadPlane.start(started, { nodes: 0, functions: ENDPOINT_FUNCTIONS, withoutControllers });
    await workloads.startLine();
    found = await runLoads(workloads);
    for (const { slices } of found) expect(JSON.stringify(slices)).not.toContain('"tooFull":true');
    // The Endpoints of a Service with a selector, which change all the time, do not concern the mirroring.
    const mirrored = triggers().filter(({ controller }) => controller === 'endpointslice-mirroring');
    const runsOf = (key: string): number => mirrored.filter((line) => line['key'] === key).length;
    expect(runsOf('load-0/svc-0')).toBeOneOf([1, 2]);
    expect(runsOf('load-0/by-hand')).toBeGreaterThan(2);
  });

  it('write nothing when a pod changes in what no endpoint shows', async () => {
    await workloads.untilIdle();
    // A key that has just written waits for its next second, and is not ready meanwhile.
    await eventually(async () => {
      const text = await (await fetch(`${workloads.gateway.url}/metrics`)).text();
      const waiting = text.split('\n').filter((line) => /^levelhook_queue_demand\{.*\} [1-9]/.test(line));
      expect(waiting).toEqual([]);
    });
    const { cluster } = workloads;
    const [pod] = (await cluster.list(Pod, 'load-0')).items;
    if (!pod) throw new Error('there is no pod');
    const before = triggers().length;
    await cluster.patch(
      Pod,
      { namespace: 'load-0', name: pod.metadata.name },
      { metadata: { annotations: { note: 'a' } } },
    );
    await eventually(async () => {
      const looked = triggers().slice(before);
      expect(looked.map(({ controller }) => String(controller)).toSorted()).toEqual(['endpoints', 'endpointslice']);
      expect(looked.map(({ writes }) => writes)).toEqual([0, 0]);
    });
  });

  it('make a slice again that somebody deletes, and undo what somebody writes into one', async () => {
    const { cluster } = workloads;
    const slices = async () =>
      (await cluster.list(EndpointSlice, 'load-1', 'kubernetes.io/service-name=svc-0')).items.map((each) => ({
        name: each.metadata.name,
        addresses: (each.endpoints ?? []).flatMap(({ addresses }) => addresses),
      }));
    const all = async () => (await slices()).flatMap(({ addresses }) => addresses).toSorted();
    const wanted = await all();
    const [first, second] = await slices();
    if (!first || !second) throw new Error('there are too few slices');
    await cluster.delete(EndpointSlice, { namespace: 'load-1', name: first.name });
    await eventually(async () => expect(await all()).toEqual(wanted));
    await cluster.patch(EndpointSlice, { namespace: 'load-1', name: second.name }, { endpoints: [] });
    await eventually(async () => expect(await all()).toEqual(wanted));
  });

  it('leave an annotation of a mirrored slice until its Endpoints change, as kube-controller-manager', async () => {
    const { cluster } = workloads;
    const slicesOf = async (name: string) =>
      (await cluster.list(EndpointSlice, 'load-0', `kubernetes.io/service-name=${name}`)).items;
    const annotations = async () => (await slicesOf('by-hand')).map(({ metadata }) => metadata.annotations ?? {});
    const [mirrored] = await slicesOf('by-hand');
    const [other] = await slicesOf('svc-0');
    if (!mirrored || !other) throw new Error('there are too few slices');
    const before = triggers().length;
    const annotated = { metadata: { annotations: { note: 'a' } } };
    await cluster.patch(EndpointSlice, { namespace: 'load-0', name: mirrored.metadata.name }, annotated);
    // A later event of the same watch.
    await cluster.patch(EndpointSlice, { namespace: 'load-0', name: other.metadata.name }, { endpoints: [] });
    const looked = () =>
      triggers()
        .slice(before)
        .map((line) => `${String(line['controller'])} ${String(line['key'])}`);
    await eventually(async () => expect(looked()).toContain('endpointslice load-0/svc-0'));
    await workloads.untilIdle();
    expect(looked()).not.toContain('endpointslice-mirroring load-0/by-hand');
    expect(await annotations()).toContainEqual(expect.objectContaining({ note: 'a' }));
  });

  it("reach kube-controller-manager's state", { timeout: 300_000 }, async () => {
    // One control plane at a time: together they would take both processors.
    await started.stop();
    const builtIn = await WorkloadPlane.start(startedBuiltIn, { nodes: 0, functions: [], withoutControllers });
    expect(found).toEqual(await runLoads(builtIn));
  });
});
