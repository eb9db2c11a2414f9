import { isIP, isIPv6 } from 'node:net';
import {
  formatLabelSelector,
  type KubernetesObject,
  NewestMap,
  type ObjectKey,
  type ObjectMeta,
  orUndefined,
  requirementsOf,
  type Resource,
  resource,
  resourcePath,
  systemClock,
  TenantTurns,
} from '../../core/index.ts';
import { type ApiClient, AnswerTooLargeError } from '../../ground/apiserver/api-client.ts';
import { variableOf } from '../../ground/config/config.ts';
import { addressRefusal, embeddedAddresses, type EndpointRules } from '../controller/endpoint/endpoint-rules.ts';

type Guard = NonNullable<EndpointRules['connectRefusal']>;
type Client = Pick<ApiClient, 'json'> & Partial<Pick<ApiClient, 'root'>>;

export interface Service extends KubernetesObject {
  readonly spec?: {
    readonly type?: string;
    readonly clusterIP?: string;
    readonly selector?: Readonly<Record<string, string>> | null;
    readonly ports?: readonly { readonly name?: string; readonly port: number }[];
  };
}

interface EndpointSlice extends KubernetesObject {
  readonly endpoints?: readonly { readonly addresses?: readonly string[] }[] | null;
}

interface Pod extends KubernetesObject {
  readonly spec?: { readonly hostNetwork?: boolean };
  readonly status?: { readonly podIPs?: readonly { readonly ip: string }[] };
}

export const Service = resource<Service>('v1', 'Service');
const EndpointSlice = resource<EndpointSlice>('discovery.k8s.io/v1', 'EndpointSlice');
const Pod = resource<Pod>('v1', 'Pod');

/**
 * A Service that becomes an ExternalName, or leads to an address that is of none of its pods, gets no new connection
 * after this time, which is also that of the question.
 */
const LOOK_MS = 2000;
/** The owner of an address changes less often than the addresses of a name. */
const OWNER_MS = 60_000;
/** Addresses whose owners are remembered for a Service. */
const MOST_OWNERS = 1024;
/**
 * Owners that a look asks for, with two requests each. A Service with more pods has the others asked for by its next
 * looks: a connection waits for these requests.
 */
const OWNERS_OF_A_LOOK = 8;
/**
 * How long a refusal is remembered. A look at a Service takes time of the thread, and clients attempt again at once.
 */
const REFUSED_MS = 1000;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** EndpointSlices of a Service, or pods of its selector. */
const MOST_OBJECTS = 1000;
/** In the EndpointSlices of a Service: two for each pod, and in other spellings. */
const MOST_ADDRESSES = 5000;
/** Services whose looks are shared. */
const MOST_GUARDS = 256;
/**
 * A pod that has ended keeps its address in its status while another pod may have it. A pod without a node has no
 * address, whatever a client with the right to write `pods/status` has put there.
 */
const IS_ALIVE = 'spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed';

/** Why a Service can be no endpoint, whatever its EndpointSlices say; undefined when it can. */
export function serviceRefusal(
  { spec }: Service,
  name: string,
): { readonly reason: 'ServiceIsExternalName' | 'ServiceWithoutSelector'; readonly message: string } | undefined {
  const remedy = 'use a Service with a selector, or spec.endpoint.url';
  // Its name may stand for anything, another namespace's Service and the gateway's own machine included.
  if (spec?.type === 'ExternalName') {
    const message = `${name} is an ExternalName, which may lead anywhere: ${remedy}`;
    return { reason: 'ServiceIsExternalName', message };
  }
  if (Object.keys(spec?.selector ?? {}).length > 0) return undefined;
  return { reason: 'ServiceWithoutSelector', message: `${name} has no selector, so it may lead anywhere: ${remedy}` };
}

/** By the client's `root`, and the namespace and name of the Service: the functions that name it share its looks. */
const watched = new WeakMap<Client, NewestMap<string, WatchedService>>();

/** Lets connections go to a Service only while it leads to its own pods. @param client asks for this function. */
export function serviceGuard(client: Client, key: ObjectKey): Guard {
  const root = client.root ?? client;
  const known = watched.get(root) ?? new NewestMap<string, WatchedService>(MOST_GUARDS);
  watched.set(root, known);
  const id = `${key.namespace}/${key.name}`;
  const service = known.get(id) ?? new WatchedService(key);
  known.set(id, service);
  return (addresses) => service.refusal(client, addresses);
}

/** A look may read megabytes of a tenant's, which has as many Services as it likes: a few of a namespace at a time. */
const looks = new TenantTurns(16, 4);

/** A Service, as the last looks have found it. The function that connects pays for a look. */
class WatchedService {
  readonly #key: ObjectKey;
  readonly #look = new Remembered<Look>(LOOK_MS);
  /** A pod may have started since the first look, or ended between its two lists. */
  readonly #lookAgain = new Remembered<Look>(REFUSED_MS);
  readonly #owners: Owners;

  constructor(key: ObjectKey) {
    this.#key = key;
    this.#owners = new Owners({ namespace: key.namespace ?? '', allowed: [] });
  }

  async refusal(client: Client, addresses: readonly string[]): Promise<string | undefined> {
    if ((await this.#refusalBy(this.#look, client, addresses)) === undefined) return undefined;
    return this.#refusalBy(this.#lookAgain, client, addresses);
  }

  async #refusalBy(look: Remembered<Look>, client: Client, addresses: readonly string[]): Promise<string | undefined> {
    const { refusal, headlessPods } = await look.get(() => this.#ask(client));
    const why = refusal === undefined ? await headlessPods?.refusal(addresses, this.#owners, client) : undefined;
    return why === undefined ? refusal : `the name of ${this.#key.name} has the address ${why}`;
  }

  async #ask(client: Client): Promise<Look> {
    const key = this.#key;
    const {
      refusal,
      pods,
      addresses = [],
      isHeadless,
    } = await looks.run(key.namespace ?? '', () => lookAt(client, key));
    // Outside of the turn: these requests wait for the flow control of the function.
    const why = refusal === undefined ? await pods?.refusal(addresses, this.#owners, client) : undefined;
    if (why !== undefined) return { refusal: `an EndpointSlice of ${key.name} has the address ${why}` };
    return { refusal, headlessPods: isHeadless ? pods : undefined };
  }
}

/** By the client's `root`, because it stays the same for the life of a cluster. */
const families = new WeakMap<Client, 4 | 6>();

/**
 * The address family that pods and Services have first, or alone. On a dual-stack cluster they have addresses of the
 * other family as well, and no field selector finds the owner of such an address: `status.podIP` and `spec.clusterIP`
 * are the first addresses, and the apiserver knows no selector of the others.
 * @returns undefined when the cluster has no Service of its own apiserver.
 */
export async function firstFamily(client: Client, signal: AbortSignal): Promise<4 | 6 | undefined> {
  const root = client.root ?? client;
  const known = families.get(root);
  if (known !== undefined) return known;
  const path = resourcePath(Service, { namespace: 'default', name: 'kubernetes' });
  const address = (await orUndefined(client.json<Service>({ path, signal })))?.spec?.clusterIP ?? '';
  const family = isIP(address);
  if (family !== 4 && family !== 6) return undefined;
  families.set(root, family);
  return family;
}

/**
 * Lets connections go to the addresses of the cluster's pods and Services only if these are of one namespace: the owner
 * of a name in DNS could lead the gateway to any pod, past the NetworkPolicies that let the gateway in.
 * @param allowed the operator's list: an address of a Service that it names may be sent to, such as that of an ingress.
 */
export function addressGuard(client: Client, namespace: string, allowed: readonly string[]): Guard {
  const owners = new Owners({ namespace, allowed });
  return async (addresses) => {
    for (const address of addresses) {
      const { refusal, guard } = await owners.of(address, client);
      const remedy = `the operator can name the origin, or that Service's, in ${variableOf('allowedEndpoints')}`;
      if (refusal !== undefined) return `the endpoint has ${address}, ${refusal}: ${remedy}`;
      const refused = await guard?.(addresses);
      if (refused !== undefined) return refused;
    }
    return undefined;
  };
}

interface Listed<T> {
  readonly metadata?: { readonly continue?: string };
  readonly items?: readonly T[] | null;
}

interface Tenant {
  readonly namespace: string;
  readonly allowed: readonly string[];
}

interface Owner {
  /** Why the address may not be sent to. */
  readonly refusal: string | undefined;
  /** Of the namespace's own Service that has it. */
  readonly guard?: Guard | undefined;
}

interface Look {
  readonly refusal: string | undefined;
  /** The pods of a headless Service, whose name resolves to their addresses. */
  readonly headlessPods?: PodAddresses | undefined;
}

/** A Service with its EndpointSlices and pods, before the owners of its addresses are known. */
interface FoundService {
  readonly refusal: string | undefined;
  /** In its EndpointSlices. */
  readonly addresses?: ReadonlySet<string>;
  readonly pods?: PodAddresses;
  readonly isHeadless?: boolean;
}

/** The owners of addresses, as they were found within the last minute. */
class Owners {
  readonly #tenant: Tenant;
  readonly #known = new NewestMap<string, Remembered<Owner>>(MOST_OWNERS);

  constructor(tenant: Tenant) {
    this.#tenant = tenant;
  }

  /** @param pods a field selector of the pods that count. Default: all. */
  of(address: string, client: Client, pods = IS_ALIVE): Promise<Owner> {
    const id = `${address} ${pods}`;
    const owner = this.#known.get(id) ?? new Remembered<Owner>(OWNER_MS);
    this.#known.set(id, owner);
    return owner.get(() => ownerOf(client, address, { ...this.#tenant, pods }));
  }

  knows(address: string, pods: string): boolean {
    return this.#known.get(`${address} ${pods}`)?.isFresh ?? false;
  }
}

/**
 * The addresses of a Service's pods. A client with the right to write `pods/status` can give any address to a pod, so
 * an address counts only if no Service and no other namespace's pod has it.
 */
class PodAddresses {
  readonly #family: 4 | 6 | undefined;
  /** By address: whether all pods that have it are in the network of their node. */
  readonly #areInHost = new Map<string, boolean>();

  /** @param family of the addresses that are connected to, and that have owners. Default: both. */
  constructor(pods: readonly Pod[], family: 4 | 6 | undefined) {
    this.#family = family;
    for (const { spec, status } of pods) {
      for (const ip of (status?.podIPs ?? []).map((each) => canonical(each.ip))) {
        this.#areInHost.set(ip, (this.#areInHost.get(ip) ?? true) && spec?.hostNetwork === true);
      }
    }
  }

  /** @returns the first address that may not be sent to, and why: `10.0.0.8, which is of none of its pods`. */
  async refusal(addresses: Iterable<string>, owners: Owners, client: Client): Promise<string | undefined> {
    const all = [...addresses];
    // An octet with a leading zero names one address for the apiserver and another one, or none, for others.
    const foreign = all.find((address) => isIP(address) === 0 || !this.#areInHost.has(canonical(address)));
    if (foreign !== undefined) return `${foreign}, which is of none of its pods`;
    for (const address of all) {
      const refused = addressRefusal(address, { loopback: false });
      if (refused !== undefined) return `${address}, ${refused}`;
    }
    const connected = new Set(
      all
        .flatMap((address) => [canonical(address), ...embeddedAddresses(address)])
        .filter((address) => this.#family === undefined || isIP(address) === this.#family),
    );
    let asks = OWNERS_OF_A_LOOK;
    const refusalOf = async (address: string): Promise<string | undefined> => {
      // A node shares its address with all pods in its network, such as kube-proxy.
      const pods = this.#areInHost.get(address) === true ? `${IS_ALIVE},spec.hostNetwork=false` : IS_ALIVE;
      if (!owners.knows(address, pods) && (asks -= 1) < 0) return undefined;
      const { refusal, guard } = await owners.of(address, client, pods);
      if (refusal !== undefined) return `${address}, ${refusal}`;
      return guard && `${address}, an address of a Service`;
    };
    const refusals = await Promise.all(shuffled([...connected]).map(refusalOf));
    return refusals.find((each) => each !== undefined);
  }
}

/** The order is random: otherwise a tenant could put an address behind all that are asked for. */
const shuffled = (all: readonly string[]): string[] =>
  all
    .map((each) => [Math.random(), each] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, each]) => each);

async function lookAt(client: Client, key: ObjectKey): Promise<FoundService> {
  const { namespace, name } = key;
  // The signal of the resolution is over by now.
  const signal = AbortSignal.timeout(LOOK_MS);
  const now = await orUndefined(client.json<Service>({ path: resourcePath(Service, key), signal }));
  if (!now) return { refusal: `there is no Service ${name} in ${namespace}` };
  const refusal = serviceRefusal(now, name);
  if (refusal) return { refusal: refusal.message };
  return lookAtPods(client, now, key);
}

/**
 * Finds the EndpointSlices of a Service and its pods. Any client with the right to write EndpointSlices can label one
 * with the name of the Service, and kube-proxy serves that too.
 */
async function lookAtPods(client: Client, { spec }: Service, key: ObjectKey): Promise<FoundService> {
  const { namespace, name } = key;
  const signal = AbortSignal.timeout(LOOK_MS);
  /** @returns undefined when there are too many, or when they are too large. */
  const list = async <T>(
    of: Resource,
    labels: Readonly<Record<string, string>>,
    fieldSelector?: string,
  ): Promise<readonly T[] | undefined> => {
    const path = resourcePath(of, { namespace });
    const labelSelector = formatLabelSelector(requirementsOf({ matchLabels: labels }));
    const query = { labelSelector, fieldSelector, limit: MOST_OBJECTS };
    try {
      const answer = await client.json<Listed<T>>({ path, query, maxBytes: MAX_ANSWER_BYTES, signal });
      return answer.metadata?.continue ? undefined : (answer.items ?? []);
    } catch (error) {
      if (error instanceof AnswerTooLargeError) return undefined;
      throw error;
    }
  };
  const tooMany = (kind: string): FoundService => ({
    refusal: `${name} has too many ${kind} to compare: ${MOST_OBJECTS} and 4 MiB at most`,
  });
  const slices = await list<EndpointSlice>(EndpointSlice, { 'kubernetes.io/service-name': name });
  if (!slices) return tooMany('EndpointSlices');
  const addresses = new Set(
    slices.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((each) => each.addresses ?? [])),
  );
  if (addresses.size > MOST_ADDRESSES) {
    return { refusal: `${name} has more than ${MOST_ADDRESSES} addresses in its EndpointSlices` };
  }
  const isHeadless = spec?.clusterIP === 'None';
  if (addresses.size === 0 && !isHeadless) return { refusal: undefined };
  // After the slices, so that a pod is there if its address is.
  const pods = await list<Pod>(Pod, spec?.selector ?? {}, IS_ALIVE);
  if (!pods) return tooMany('pods');
  return { refusal: undefined, addresses, pods: new PodAddresses(pods, await firstFamily(client, signal)), isHeadless };
}

/**
 * Whether an address may be sent to for a namespace, because no pod or Service of another one has it. A node has the
 * address of its pods in the host's network, such as kube-proxy.
 */
async function ownerOf(
  client: Client,
  address: string,
  { namespace, allowed, pods: podSelector }: Tenant & { readonly pods: string },
): Promise<Owner> {
  const having = async (of: Resource, fieldSelector: string): Promise<ObjectMeta[]> => {
    const { items } = await client.json<{ items?: readonly KubernetesObject[] | null }>({
      path: resourcePath(of),
      query: { fieldSelector },
      accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
      maxBytes: MAX_ANSWER_BYTES,
      signal: AbortSignal.timeout(LOOK_MS),
    });
    return (items ?? []).map(({ metadata }) => metadata);
  };
  const services = await having(Service, `spec.clusterIP=${address}`);
  if (services.some((each) => isServiceNamed(each, allowed))) return { refusal: undefined };
  const pods = await having(Pod, `status.podIP=${address},${podSelector}`);
  const isForeign = (each: ObjectMeta): boolean => each.namespace !== namespace;
  const [own = ''] = pods
    .filter((each) => !isForeign(each))
    .map(createdAt)
    .toSorted();
  // The older pod is the owner. Otherwise a tenant could claim the address later, and this function would be refused.
  if (services.some(isForeign) || pods.some((each) => isForeign(each) && (own === '' || createdAt(each) <= own))) {
    return { refusal: "an address of another namespace's pod or Service" };
  }
  const [service] = services;
  return { refusal: undefined, guard: service && serviceGuard(client, service) };
}

/** To the second, as RFC 3339. The apiserver alone writes it. */
const createdAt = ({ creationTimestamp = '' }: ObjectMeta): string => creationTimestamp;

/** Whether an origin of the operator's list is this Service: `http://ingress.tools.svc`. */
function isServiceNamed({ namespace, name }: ObjectKey, allowed: readonly string[]): boolean {
  const host = `${name}.${namespace}.svc`;
  return allowed.some((pattern) => {
    const hostname = URL.canParse(pattern) ? new URL(pattern).hostname : '';
    return hostname === host || hostname.startsWith(`${host}.`);
  });
}

/** The spelling of an IPv6 address that the apiserver finds; other texts as they are. */
function canonical(address: string): string {
  return (isIPv6(address) && URL.parse(`http://[${address}]`)?.hostname.slice(1, -1)) || address;
}

/** An answer that counts for some time. Connections that are opened together share one question. */
class Remembered<T extends { readonly refusal: string | undefined }> {
  readonly #ms: number;
  #known: { readonly answer: Promise<T>; untilMs: number } | undefined;

  /** @param ms how long it counts, from its question on. A refusal counts for a second, a failure not at all. */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Whether it is known, or asked for. */
  get isFresh(): boolean {
    return this.#known !== undefined && systemClock.now() < this.#known.untilMs;
  }

  get(ask: () => Promise<T>): Promise<T> {
    if (this.#known && this.isFresh) return this.#known.answer;
    const nowMs = systemClock.now();
    const answer = ask();
    // A question under way is shared until it ends.
    const asked = { answer, untilMs: Infinity };
    this.#known = asked;
    answer.then(
      ({ refusal }) => (asked.untilMs = refusal === undefined ? nowMs + this.#ms : systemClock.now() + REFUSED_MS),
      () => (asked.untilMs = nowMs),
    );
    return answer;
  }
}
