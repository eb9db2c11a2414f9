import { resource } from '../../src/core/index.ts';
import { Lease, Node, Pod, ServiceAccount } from '../../src/function/kinds/index.ts';
import { inParallel } from '../../functions/lib/in-parallel.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';

export interface FleetOptions {
  /** Names of zones, and how many nodes each has. */
  readonly zones: Readonly<Record<string, number>>;
  /** Pods of each node, which tolerate every taint for `tolerationSeconds`. Default: none. */
  readonly podsPerNode?: number;
  readonly tolerationSeconds?: number;
  /** Where the pods are. */
  readonly namespace: string;
}

/** What became of the nodes and pods: how many of each kind. */
export interface FleetState {
  /** `ready`, and the keys of the node's taints with their effects: `True not-ready:NoExecute`. */
  readonly nodes: Readonly<Record<string, number>>;
  /** `Ready` of pods, and whether they are being deleted: `False, deleted, DisruptionTarget`. */
  readonly pods: Readonly<Record<string, number>>;
}

const PARALLEL = 20;
const LEASES = 'kube-node-lease';
const Namespace = resource('v1', 'Namespace', { namespaced: false });

/** Simulated nodes that send heartbeats by Lease alone, as a kubelet does between two reports of its status. */
export class Fleet {
  readonly names: readonly string[];
  /** How many heartbeats were sent. */
  beats = 0;
  readonly #cluster: Cluster;
  readonly #options: FleetOptions;
  readonly #zoneOf = new Map<string, string>();
  readonly #silent = new Set<string>();

  constructor(cluster: Cluster, options: FleetOptions) {
    this.#cluster = cluster;
    this.#options = options;
    for (const [zone, count] of Object.entries(options.zones)) {
      for (let at = 0; at < count; at += 1) this.#zoneOf.set(`${zone}-${at}`, zone);
    }
    this.names = [...this.#zoneOf.keys()];
  }

  /** Creates Leases, nodes that are ready, and their pods. */
  async create(): Promise<void> {
    const { namespace, podsPerNode = 0, tolerationSeconds = 300 } = this.#options;
    if (!(await this.#cluster.get(Namespace, { name: LEASES }))) await this.#cluster.createNamespace(LEASES);
    // Pods need it, and kube-controller-manager makes it.
    await eventually(async () => {
      if (!(await this.#cluster.get(ServiceAccount, { namespace, name: 'default' })))
        throw new Error('no ServiceAccount');
    });
    await each(this.names, async (name) => {
      await this.#cluster.create(Lease, {
        metadata: { namespace: LEASES, name },
        spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microTime() },
      });
      const labels = { 'topology.kubernetes.io/zone': this.#zoneOf.get(name) };
      await this.#cluster.create(Node, { metadata: { name, labels } });
      await this.report([name]);
      for (let at = 0; at < podsPerNode; at += 1) {
        const pod = `${name}-${at}`;
        const spec = {
          nodeName: name,
          containers: [{ name: 'main', image: 'none' }],
          tolerations: [{ operator: 'Exists', effect: 'NoExecute', tolerationSeconds }],
        };
        await this.#cluster.create(Pod, { metadata: { namespace, name: pod }, spec });
        const status = {
          phase: 'Running',
          conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: time() }],
        };
        await this.#patchStatus(`/api/v1/namespaces/${namespace}/pods/${pod}`, status);
      }
    });
  }

  /** The nodes report a status: they are ready. */
  async report(names: readonly string[]): Promise<void> {
    const ok = (type: string, status: string) => ({
      type,
      status,
      reason: 'KubeletReady',
      lastHeartbeatTime: time(),
      lastTransitionTime: time(),
    });
    await each(names, (name) => {
      const healthy = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => ok(type, 'False'));
      return this.#patchStatus(`/api/v1/nodes/${name}`, { conditions: [...healthy, ok('Ready', 'True')] });
    });
  }

  /** A heartbeat of each node that is not silenced. */
  async beat(names = this.names): Promise<void> {
    await each(
      names.filter((name) => !this.#silent.has(name)),
      async (name) => {
        await this.#cluster.patch(Lease, { namespace: LEASES, name }, { spec: { renewTime: microTime() } });
        this.beats += 1;
      },
    );
  }

  /** Heartbeats of all every `periodMs`, spread over it, until the signal is aborted. */
  async beatUntil(signal: AbortSignal, periodMs: number): Promise<void> {
    const slices = 20;
    const size = Math.ceil(this.names.length / slices);
    const fromMs = performance.now();
    for (let turn = 0; !signal.aborted; turn += 1) {
      const at = turn % slices;
      await this.beat(this.names.slice(at * size, (at + 1) * size));
      const waitMs = fromMs + ((turn + 1) * periodMs) / slices - performance.now();
      await new Promise((wake) => setTimeout(wake, Math.max(0, waitMs)));
    }
  }

  /** The nodes of a zone send their last heartbeat, all at once, and nothing from now on. */
  async silence(zone: string): Promise<void> {
    const names = this.names.filter((name) => this.#zoneOf.get(name) === zone);
    await this.beat(names);
    for (const name of names) this.#silent.add(name);
  }

  /** All nodes are back: they send heartbeats and report that they are ready. */
  async revive(): Promise<void> {
    const back = [...this.#silent];
    this.#silent.clear();
    await this.beat(back);
    await this.report(back);
  }

  async state(): Promise<FleetState> {
    const [nodes, pods] = await Promise.all([
      this.#cluster.list(Node),
      this.#cluster.list(Pod, this.#options.namespace),
    ]);
    return { nodes: counted(nodes.items.map(nodeState)), pods: counted(pods.items.map(podState)) };
  }

  async #patchStatus(path: string, status: object): Promise<void> {
    const contentType = 'application/strategic-merge-patch+json';
    await this.#cluster.client.json({ method: 'PATCH', path: `${path}/status`, body: { status }, contentType });
  }
}

function nodeState({ spec, status }: Node): string {
  const taints = (spec?.taints ?? []).map(({ key, effect }) => `${key.replace('node.kubernetes.io/', '')}:${effect}`);
  return [readiness(status), ...taints.toSorted((a, b) => (a < b ? -1 : 1))].join(' ');
}

function podState({ metadata, status }: Pod): string {
  const target = status?.conditions?.some(({ type }) => type === 'DisruptionTarget');
  return [readiness(status), ...(metadata.deletionTimestamp ? ['deleted'] : []), ...(target ? ['target'] : [])].join(
    ' ',
  );
}

function readiness(status: { conditions?: readonly { type: string; status: string }[] } | undefined): string {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? 'none';
}

function counted(texts: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const text of texts.toSorted((a, b) => (a < b ? -1 : 1))) counts[text] = (counts[text] ?? 0) + 1;
  return counts;
}

async function each(names: readonly string[], act: (name: string) => Promise<void>): Promise<void> {
  for (const outcome of await inParallel(names, PARALLEL, act)) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}

const time = (): string => `${new Date().toISOString().slice(0, 19)}Z`;
const microTime = (): string => new Date().toISOString().replace('Z', '000Z');
