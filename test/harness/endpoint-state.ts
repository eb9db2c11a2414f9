import { setTimeout as sleep } from 'node:timers/promises';
import type { KubernetesObject, Resource } from '../../src/core/index.ts';
import { matchesLabels } from '../../src/core/index.ts';
import { Endpoints, EndpointSlice, Pod, Service } from '../../src/function/kinds/index.ts';
import { ChangeWatch } from './change-watch.ts';
import type { Cluster } from './cluster.ts';
import { machineMs } from './machine-clock.ts';

/** What a namespace's Services have for endpoints, without what differs from run to run: names, UIDs, times. */
export interface EndpointState {
  /** By Service, in one order. */
  readonly slices: Readonly<Record<string, readonly unknown[]>>;
  readonly endpoints: Readonly<Record<string, unknown>>;
}

/** Follows Services, pods and their endpoints by watches of its own. */
export class EndpointObserver {
  readonly #services = new Map<string, Service>();
  readonly #pods = new Map<string, Pod>();
  readonly #slices = new Map<string, EndpointSlice>();
  readonly #endpoints = new Map<string, Endpoints>();
  readonly #watches: ChangeWatch[] = [];

  static async start(cluster: Cluster, namespace: string): Promise<EndpointObserver> {
    const observer = new EndpointObserver();
    const follow = async <T extends KubernetesObject>(of: Resource<T>, into: Map<string, T>): Promise<void> => {
      const watch = await ChangeWatch.start(cluster, of, namespace, (type, object) => {
        if (type === 'DELETED') into.delete(object.metadata.name);
        else into.set(object.metadata.name, object);
      });
      observer.#watches.push(watch);
    };
    await follow(Service, observer.#services);
    await follow(Pod, observer.#pods);
    await follow(EndpointSlice, observer.#slices);
    await follow(Endpoints, observer.#endpoints);
    return observer;
  }

  async stop(): Promise<void> {
    for (const watch of this.#watches) await watch.stop();
  }

  /**
   * Until all Services show their pods, and Endpoints that a person has written are mirrored; all that was written
   * before counts.
   */
  async untilRight(limitMs: number): Promise<void> {
    const end = machineMs() + limitMs;
    await Promise.all(this.#watches.map((watch) => watch.untilCurrent(limitMs)));
    for (let wrong = this.#wrong(); wrong.length > 0; wrong = this.#wrong()) {
      for (const watch of this.#watches) watch.check();
      if (machineMs() > end) throw new Error(`still wrong after ${limitMs} ms: ${wrong.slice(0, 5).join('; ')}`);
      await sleep(20);
    }
  }

  /** What is wrong, by an expectation that shares no code with the functions. */
  #wrong(): string[] {
    const podsOf = new Map<string, Pod[]>();
    for (const pod of this.#pods.values()) {
      const app = pod.metadata.labels?.['app'] ?? '';
      podsOf.set(app, [...(podsOf.get(app) ?? []), pod]);
    }
    const slicesOf = Map.groupBy(this.#slices.values(), serviceNameOf);
    return [...this.#services.values()].flatMap((service) => {
      const { name } = service.metadata;
      const { selector } = service.spec ?? {};
      const shown = (slicesOf.get(name) ?? []).flatMap(({ endpoints }) => endpoints ?? []);
      const listed = this.#endpoints.get(name)?.subsets ?? [];
      if (!selector) {
        const wanted = listed.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip)).toSorted();
        const has = shown.flatMap(({ addresses }) => addresses).toSorted();
        return same(wanted, has) ? [] : [`${name}: mirrored ${has.join()}, wanted ${wanted.join()}`];
      }
      const all = service.spec?.publishNotReadyAddresses === true;
      const pods = (podsOf.get(selector['app'] ?? '') ?? []).filter(
        ({ status, metadata }) =>
          matchesLabels({ matchLabels: selector }, metadata.labels) &&
          status?.podIP !== undefined &&
          status.phase === 'Running',
      );
      const wanted = pods.map((pod) => {
        const leaving = pod.metadata.deletionTimestamp !== undefined;
        const isReady =
          pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
        return { leaving, ip: pod.status?.podIP, uid: pod.metadata.uid, ready: all || (isReady && !leaving) };
      });
      const slices = shown.map(({ addresses, conditions = {}, targetRef }) =>
        [addresses[0], targetRef?.uid, conditions.ready, conditions.terminating].join(' '),
      );
      const slicesWanted = wanted.map(({ ip, uid, ready, leaving }) => [ip, uid, ready, leaving].join(' '));
      const inEndpoints = listed.flatMap(({ addresses = [], notReadyAddresses = [] }) => [
        ...addresses.map(({ targetRef }) => `${targetRef?.uid} true`),
        ...notReadyAddresses.map(({ targetRef }) => `${targetRef?.uid} false`),
      ]);
      const endpointsWanted = wanted.flatMap(({ uid, ready, leaving }) => (leaving && !all ? [] : `${uid} ${ready}`));
      return [
        ...(same(slices, slicesWanted) ? [] : [`${name}: ${slices.length} in slices, wanted ${slicesWanted.length}`]),
        ...(same([...new Set(inEndpoints)], endpointsWanted)
          ? []
          : [`${name}: ${inEndpoints.length} in Endpoints, wanted ${endpointsWanted.length}`]),
      ];
    });
  }

  /** As it is now. Of slices with the same ports only what they hold together counts, and that none is too full. */
  state(): EndpointState {
    const slices: Record<string, unknown[]> = {};
    for (const [name, all] of Map.groupBy(this.#slices.values(), serviceNameOf)) {
      const groups = Object.entries(Object.groupBy(all, groupOf)).map(([group, those = []]) => {
        const endpoints = those.flatMap(({ endpoints: some }) => (some ?? []).map(withoutUid)).toSorted();
        return { group: JSON.parse(group) as unknown, endpoints, tooFull: those.some(isTooFull) };
      });
      slices[name] = groups.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    }
    const endpoints: Record<string, unknown> = {};
    for (const { metadata, subsets = [] } of this.#endpoints.values()) {
      const texts = subsets.map(({ addresses = [], notReadyAddresses = [], ports = [] }) => ({
        addresses: addresses.map(withoutUid).toSorted(),
        notReadyAddresses: notReadyAddresses.map(withoutUid).toSorted(),
        ports: ports.map((each) => JSON.stringify(inOrder(each))).toSorted(),
      }));
      const sorted = texts.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
      endpoints[metadata.name] = { labels: inOrder(metadata.labels ?? {}), subsets: sorted };
    }
    return { slices: inOrder(slices), endpoints: inOrder(endpoints) };
  }

  /** How many slices there are. */
  get sliceCount(): number {
    return this.#slices.size;
  }
}

const serviceNameOf = ({ metadata }: EndpointSlice): string => metadata.labels?.['kubernetes.io/service-name'] ?? '';

const isTooFull = ({ endpoints, metadata }: EndpointSlice): boolean =>
  metadata.labels?.['endpointslice.kubernetes.io/managed-by'] === 'endpointslice-controller.k8s.io' &&
  (endpoints ?? []).length > 100;

function groupOf({ addressType, ports, metadata }: EndpointSlice): string {
  const owners = (metadata.ownerReferences ?? []).map(({ uid: _, ...owner }) => inOrder(owner));
  const sorted = (ports ?? []).map(inOrder).toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return JSON.stringify({ addressType, ports: sorted, labels: inOrder(metadata.labels ?? {}), owners });
}

function withoutUid(endpoint: { readonly targetRef?: { uid?: string } }): string {
  const { targetRef, ...others } = endpoint;
  const { uid: _, ...reference } = targetRef ?? {};
  return JSON.stringify({ ...inOrder(others), targetRef: inOrder(reference) });
}

function inOrder<T>(record: Readonly<Record<string, T>> | object): Record<string, T> {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1))) as Record<string, T>;
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return JSON.stringify(a.toSorted()) === JSON.stringify(b.toSorted());
}
