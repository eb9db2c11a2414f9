import { setTimeout as sleep } from 'node:timers/promises';
import { type ObjectKey, resourcePath } from '../../src/core/index.ts';
import { Endpoints, Node, Pod, Service } from '../../src/function/kinds/index.ts';
import { type Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';

export interface ServiceLoad {
  readonly services: number;
  /** Over all Services. */
  readonly pods: number;
  readonly nodes: number;
  /** Rounds of changes, each of about half of the pods. */
  readonly rounds: number;
  /** The script changes so many pods a second, if the machine keeps up. Default: as many as it can. */
  readonly perSecond?: number;
}

/** Controllers that would change the script's pods and nodes, which have no kubelet. */
export const CONTROLLERS_OF_NODES = [
  'node-lifecycle-controller',
  'taint-eviction-controller',
  'pod-garbage-collector-controller',
];

const WRITERS = 16;

interface PodState {
  /** Grows with each pod of this name. */
  readonly generation: number;
  readonly service: number;
  readonly ready: boolean;
  /** It has a grace period that nobody ends. */
  readonly leaving: boolean;
}

/**
 * The same writes in each run: Services of several kinds, their pods, nodes in three zones, and rounds in which pods
 * become ready or not, come under another Service, leave, go and come again. The script is the kubelet: no program
 * writes pods and nodes beside it.
 */
export class ServiceChurn {
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #load: ServiceLoad;
  readonly #pods: (PodState | undefined)[] = [];
  /** When the next change is due, by the process's clock. */
  #dueMs = 0;

  constructor(cluster: Cluster, namespace: string, load: ServiceLoad) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#load = load;
  }

  /** Namespace, nodes and Services. @param hasNodes the nodes are there, from a load before */
  async prepare(hasNodes = false): Promise<void> {
    const { services, nodes } = this.#load;
    await this.#cluster.createNamespace(this.#namespace);
    await each(hasNodes ? 0 : nodes, async (at) => {
      const labels = { 'topology.kubernetes.io/zone': `z${at % 3}` };
      await this.#cluster.create(Node, { metadata: { name: `node-${at}`, labels } });
    });
    // Without a ServiceAccount no pod is admitted, and kube-controller-manager makes it a little later.
    await eventually(() => this.#createPod(0, { generation: 0, service: 0, ready: true, leaving: false }));
    await this.#cluster.delete(Pod, this.#key(`pod-0-0`));
    await each(services, (at) => this.#cluster.create(Service, { metadata: this.#key(`svc-${at}`), ...serviceOf(at) }));
    await this.#cluster.create(Service, { metadata: this.#key('by-hand'), spec: { ports: [{ port: 80 }] } });
  }

  /** All pods, all rounds, and Endpoints that a person writes. */
  async run(): Promise<void> {
    const { pods, services, rounds } = this.#load;
    this.#dueMs = performance.now();
    await each(pods, async (at) => {
      await this.#turn();
      await this.#createPod(at, { generation: 1, service: at % services, ready: at % 13 !== 0, leaving: false });
    });
    await this.#writeByHand(['192.0.2.1', '2001:db8::1'], 'create');
    for (let round = 1; round <= rounds; round += 1) {
      await each(pods, (at) => this.#change(at, round));
      await this.#writeByHand([`192.0.2.${round}`], 'update');
    }
  }

  async #change(at: number, round: number): Promise<void> {
    const { services } = this.#load;
    const state = this.#pods[at];
    const name = (from: PodState): ObjectKey => this.#key(`pod-${at}-${from.generation}`);
    const kind = (at * 7 + round * 3) % 10;
    if (state && !state.leaving && kind > 4) return;
    await this.#turn();
    if (!state || state.leaving) {
      if (state) await this.#cluster.delete(Pod, name(state));
      const generation = round * 10 + 1;
      await this.#createPod(at, { generation, service: at % services, ready: true, leaving: false });
      return;
    }
    switch (kind) {
      case 0:
      case 1:
        await this.#writeStatus(at, { ...state, ready: !state.ready });
        break;
      case 2: {
        const next = { ...state, service: (state.service + 1) % services };
        await this.#cluster.patch(Pod, name(state), { metadata: { labels: labelsOf(next) } });
        this.#pods[at] = next;
        break;
      }
      case 3: {
        const path = resourcePath(Pod, name(state));
        await this.#cluster.client.json({ method: 'DELETE', path, body: { gracePeriodSeconds: 3600 } });
        this.#pods[at] = { ...state, leaving: true };
        break;
      }
      case 4:
        await this.#cluster.delete(Pod, name(state));
        this.#pods[at] = undefined;
        break;
      default:
        break;
    }
  }

  /** Waits until the next change is due: changes come as from kubelets, which wait for no controller. */
  async #turn(): Promise<void> {
    const { perSecond } = this.#load;
    if (perSecond === undefined) return;
    const leftMs = this.#dueMs - performance.now();
    this.#dueMs += 1000 / perSecond;
    if (leftMs > 0) await sleep(leftMs);
  }

  async #createPod(at: number, state: PodState): Promise<void> {
    const metadata = { ...this.#key(`pod-${at}-${state.generation}`), labels: labelsOf(state) };
    const ports = [{ name: 'web', containerPort: 8000 + (at % 2), protocol: 'TCP' }];
    const spec = {
      nodeName: `node-${at % this.#load.nodes}`,
      containers: [{ name: 'main', image: 'pause', ports }],
      automountServiceAccountToken: false,
    };
    await this.#cluster.create(Pod, { metadata, spec });
    await this.#writeStatus(at, state);
  }

  async #writeStatus(at: number, state: PodState): Promise<void> {
    const number = at * 8 + (state.generation % 8);
    const podIP = `10.${64 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
    const lastTransitionTime = new Date().toISOString().replace(/\.\d+Z/, 'Z');
    const conditions = [{ type: 'Ready', status: state.ready ? 'True' : 'False', lastTransitionTime }];
    const path = resourcePath(Pod, { ...this.#key(`pod-${at}-${state.generation}`), subresource: 'status' });
    const body = { status: { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions } };
    await this.#cluster.client.json({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' });
    this.#pods[at] = state;
  }

  async #writeByHand(ips: readonly string[], verb: 'create' | 'update'): Promise<void> {
    const subsets = [{ addresses: ips.map((ip) => ({ ip })), ports: [{ port: 80 }] }];
    const metadata = this.#key('by-hand');
    if (verb === 'create') await this.#cluster.create(Endpoints, { metadata, subsets });
    else await this.#cluster.patch(Endpoints, metadata, { subsets });
  }

  #key(name: string): { namespace: string; name: string } {
    return { namespace: this.#namespace, name };
  }
}

const labelsOf = ({ service }: PodState): Record<string, string> => ({ app: `app-${service}`, tier: 'test' });

/** Of each kind some: with named ports, headless, publishing all pods, with hints, with labels. */
function serviceOf(at: number): { spec: object } {
  const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
  if (at % 5 === 1) ports.push({ name: 'web', port: 81, targetPort: 'web' as never });
  return {
    spec: {
      selector: { app: `app-${at}`, tier: 'test' },
      ports,
      ...(at % 7 === 2 ? { clusterIP: 'None' } : {}),
      ...(at % 11 === 3 ? { publishNotReadyAddresses: true } : {}),
      ...(at % 3 === 1 ? { trafficDistribution: at % 2 === 0 ? 'PreferSameNode' : 'PreferClose' } : {}),
    },
  };
}

/** Calls `act` with each number below `count`, as many at a time as there are writers. */
async function each(count: number, act: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: Math.min(WRITERS, count) }, writer));
}
