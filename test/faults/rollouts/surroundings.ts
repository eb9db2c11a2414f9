import { Namespace, Node, Service } from '../../../src/function/kinds/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { deployment, deployments } from '../../harness/deployments.ts';
import { EndpointObserver } from '../../harness/endpoint-state.ts';
import { eventually } from '../../harness/eventually.ts';
import { Fleet } from '../../harness/fleet.ts';
import type { Random } from '../../harness/seeded-random.ts';
import type { Action } from './actions.ts';

const SERVICES = 8;
/** Of nodes that only send heartbeats: they have no room for a pod. */
const ZONES = { 'zone-a': 2, 'zone-b': 2 };
const BEAT_MS = 2000;
/** Namespaces that the actions have made and not deleted, at most. */
const MOST_NAMESPACES = 4;

export interface SurroundingsOptions {
  /** Where the Deployments `web-0`, `web-1` ... are. */
  readonly namespace: string;
  readonly random: Random;
}

/**
 * What changes beside the Deployments: Services in front of them, Namespaces that come with content and are deleted,
 * and zones whose nodes fall silent and come back.
 */
export class Surroundings {
  readonly #cluster: Cluster;
  readonly #options: SurroundingsOptions;
  readonly #fleet: Fleet;
  readonly #stop = new AbortController();
  #beating: Promise<void> = Promise.resolve();
  #observer: EndpointObserver | undefined;
  #namespaces: string[] = [];
  #made = 0;

  constructor(cluster: Cluster, options: SurroundingsOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#fleet = new Fleet(cluster, {
      zones: ZONES,
      namespace: options.namespace,
    });
  }

  async start(): Promise<void> {
    const { namespace } = this.#options;
    this.#observer = await EndpointObserver.start(this.#cluster, namespace);
    await this.#fleet.create();
    this.#beating = this.#fleet.beatUntil(this.#stop.signal, BEAT_MS);
    // Awaited by `stop`.
    this.#beating.catch(() => {});
    for (let at = 0; at < SERVICES; at += 1) await this.#createService(at);
  }

  /** What may be done. */
  get actions(): readonly Action[] {
    return [
      { name: 'change a Service', likely: 3, act: () => this.#changeService() },
      {
        name: 'create or delete a Service',
        likely: 1,
        act: () => this.#toggleService(),
      },
      {
        name: 'create or delete a Namespace',
        likely: 2,
        act: () => this.#toggleNamespace(),
      },
      {
        name: 'silence a zone',
        likely: 1,
        act: () => this.#fleet.silence(this.#oneOf(Object.keys(ZONES))),
      },
      { name: 'revive the nodes', likely: 1, act: () => this.#fleet.revive() },
    ];
  }

  /** All Services are there, no Namespace of the actions is wanted any more, and all nodes report. */
  async mend(): Promise<void> {
    for (let at = 0; at < SERVICES; at += 1) {
      if (!(await this.#cluster.get(Service, this.#key(at)))) await this.#createService(at);
    }
    for (const name of this.#namespaces.splice(0)) await this.#cluster.deleteNamespace(name);
    await this.#fleet.revive();
  }

  /**
   * Until every Service shows its pods, no Namespace of the actions is left, and every node is ready and has no taint.
   * @throws what is wrong after `limitMs`
   */
  async untilRight(limitMs: number): Promise<void> {
    await eventually(
      async () => {
        const left = (await this.#cluster.list(Namespace)).items.filter(({ metadata }) =>
          metadata.name.startsWith('made-'),
        );
        if (left.length > 0) throw new Error(`Namespaces are left: ${JSON.stringify(left)}`);
        const wrong = (await this.#cluster.list(Node)).items.filter(
          ({ spec, status }) =>
            (spec?.taints ?? []).length > 0 ||
            !status?.conditions?.some((each) => each.type === 'Ready' && each.status === 'True'),
        );
        if (wrong.length > 0) throw new Error(`nodes are not well: ${JSON.stringify(wrong)}`);
      },
      limitMs,
      500,
    );
    await this.#observer?.untilRight(limitMs);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#beating;
    await this.#observer?.stop();
  }

  #key(at: number): { namespace: string; name: string } {
    return { namespace: this.#options.namespace, name: `svc-${at}` };
  }

  #oneOf<T>(all: readonly T[]): T {
    return all[this.#options.random.below(all.length)] as T;
  }

  async #createService(at: number): Promise<void> {
    const isHeadless = at % 4 === 3;
    await this.#cluster.create(Service, {
      metadata: this.#key(at),
      spec: {
        selector: { app: `web-${at}` },
        ports: [{ name: 'http', port: 80 }],
        ...(isHeadless ? { clusterIP: 'None' } : {}),
      },
    });
  }

  /** Other pods, other ports, or pods that are not ready too. */
  async #changeService(): Promise<void> {
    const { random } = this.#options;
    const change = this.#oneOf([
      { selector: { app: `web-${random.below(SERVICES)}` } },
      {
        ports: [{ name: 'http', port: 80, targetPort: 8000 + random.below(3) }],
      },
      { publishNotReadyAddresses: random.below(2) === 0 },
    ]);
    await this.#cluster.patch(Service, this.#key(random.below(SERVICES)), {
      spec: change,
    });
  }

  async #toggleService(): Promise<void> {
    const at = this.#options.random.below(SERVICES);
    if (await this.#cluster.get(Service, this.#key(at))) await this.#cluster.delete(Service, this.#key(at));
    else await this.#createService(at);
  }

  /** With objects of several kinds; the pods of its Deployment run on nodes and end with their grace. */
  async #toggleNamespace(): Promise<void> {
    if (this.#namespaces.length >= MOST_NAMESPACES || (this.#namespaces.length > 0 && this.#oneOf([true, false]))) {
      const [name = ''] = this.#namespaces.splice(this.#options.random.below(this.#namespaces.length), 1);
      return this.#cluster.deleteNamespace(name);
    }
    const namespace = `made-${(this.#made += 1)}`;
    await this.#cluster.createNamespace(namespace);
    this.#namespaces.push(namespace);
    for (let at = 0; at < 3; at += 1) {
      await this.#cluster.create(configMaps, {
        metadata: { namespace, name: `config-${at}` },
      });
    }
    await this.#cluster.create(deployments, deployment({ namespace, name: 'web' }, 2));
    await this.#cluster.create(Service, {
      metadata: { namespace, name: 'web' },
      spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
    });
  }
}
