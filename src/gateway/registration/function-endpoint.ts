import { X509Certificate } from 'node:crypto';
import { BlockList, isIP } from 'node:net';
import {
  formatLabelSelector,
  type KubernetesObject,
  orUndefined,
  requirementsOf,
  type Resource,
  resource,
  resourcePath,
  systemClock,
} from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { variableOf } from '../config/config.ts';
import { checkEndpoint, EndpointError, type EndpointRules, namesLoopback } from '../endpoint/endpoint-rules.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import type { ReconcileFunctionSpec } from './reconcile-function.ts';

interface Service extends KubernetesObject {
  readonly spec?: {
    readonly type?: string;
    readonly selector?: Readonly<Record<string, string>> | null;
    readonly ports?: readonly { readonly name?: string; readonly port: number }[];
  };
}

interface EndpointSlice extends KubernetesObject {
  readonly endpoints?: readonly { readonly addresses?: readonly string[] }[] | null;
}

interface Pod extends KubernetesObject {
  readonly status?: { readonly podIPs?: readonly { readonly ip: string }[] };
}

const Service = resource<Service>('v1', 'Service');
const EndpointSlice = resource<EndpointSlice>('discovery.k8s.io/v1', 'EndpointSlice');
const Pod = resource<Pod>('v1', 'Pod');

/** Where a ReconcileFunction's triggers go, and what may be connected to for that. */
export interface FunctionEndpoint {
  readonly url: string;
  readonly rules: EndpointRules;
  readonly ca: string | undefined;
}

/**
 * Finds where a function is: at a Service of its own namespace, or at a URL that the operator allows.
 * @param allowed the operator's list.
 * @throws InvalidFunctionError; ApiError when the apiserver does not tell.
 */
export async function functionEndpoint(
  { url, service, caBundle }: ReconcileFunctionSpec['endpoint'],
  where: {
    readonly client: ApiClient;
    readonly namespace: string;
    readonly allowed: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<FunctionEndpoint> {
  const ca = caBundle === undefined ? undefined : certificates(caBundle);
  if (service) return { ...(await serviceEndpoint(service, where)), ca };
  // Loopback is this machine's, of which the operator must have spoken.
  const rules = { allow: where.allowed, loopback: where.allowed.some(namesLoopback) };
  try {
    return { url: checkEndpoint(url ?? '', rules).href, rules, ca };
  } catch (error) {
    if (!(error instanceof EndpointError)) throw error;
    const remedy = error.reason === 'EndpointNotAllowed' ? ` (${variableOf('allowedEndpoints')})` : '';
    throw new InvalidFunctionError('Reachable', error.reason, `spec.endpoint.url: ${error.message}${remedy}`);
  }
}

async function serviceEndpoint(
  { name, port, path, scheme }: NonNullable<ReconcileFunctionSpec['endpoint']['service']>,
  { client, namespace, signal }: { client: ApiClient; namespace: string; signal: AbortSignal },
): Promise<{ url: string; rules: EndpointRules }> {
  const found = await orUndefined(client.json<Service>({ path: resourcePath(Service, { namespace, name }), signal }));
  if (!found) {
    throw new InvalidFunctionError(
      'Reachable',
      'ServiceNotFound',
      `spec.endpoint.service.name: there is no Service ${name} in ${namespace}`,
    );
  }
  if (isExternalName(found)) {
    throw new InvalidFunctionError(
      'Reachable',
      'ServiceIsExternalName',
      `spec.endpoint.service.name: ${externalName(name)}`,
    );
  }
  if (!hasSelector(found)) {
    throw new InvalidFunctionError(
      'Reachable',
      'ServiceWithoutSelector',
      `spec.endpoint.service.name: ${withoutSelector(name)}`,
    );
  }
  const ports = found.spec?.ports ?? [];
  const own = ports.find((each) => each.port === port || each.name === port);
  if (!own) {
    const there = ports.map((each) => (each.name ? `${each.name} (${each.port})` : String(each.port))).join(', ');
    throw new InvalidFunctionError(
      'Reachable',
      'ServicePortNotFound',
      `spec.endpoint.service.port: ${name} has ${there || 'no port'}, not ${port}`,
    );
  }
  const origin = new URL(`${scheme}://${name}.${namespace}.svc:${own.port}`).origin;
  // Trap: resolved against the origin a path that begins with two slashes would name another host.
  const connectRefusal = rememberedFor(LOOK_MS, async () => {
    const path = resourcePath(Service, { namespace, name });
    // The signal of the resolution is over by now.
    const now = await orUndefined(client.json<Service>({ path, signal: AbortSignal.timeout(LOOK_MS) }));
    if (!now) return `there is no Service ${name} in ${namespace}`;
    if (isExternalName(now)) return externalName(name);
    if (!hasSelector(now)) return withoutSelector(name);
    const foreign = await foreignAddress(client, now, AbortSignal.timeout(LOOK_MS));
    return foreign && `an EndpointSlice of ${name} has the address ${foreign}, which is of none of its pods`;
  });
  return { url: new URL(origin + path).href, rules: { allow: [origin], loopback: false, connectRefusal } };
}

/**
 * A Service that becomes an ExternalName, or leads to an address that is of none of its pods, gets no new connection
 * after this time, which is also that of the question.
 */
const LOOK_MS = 2000;

/**
 * An address to which connections to the Service may go, and which is of none of its pods: whoever may write
 * EndpointSlices could lead the gateway to any pod or node, past the NetworkPolicies that let the gateway in.
 */
async function foreignAddress(
  client: Pick<ApiClient, 'json'>,
  { metadata: { namespace, name }, spec }: Service,
  signal: AbortSignal,
): Promise<string | undefined> {
  const list = async <T>(of: Resource, labels: Readonly<Record<string, string>>): Promise<readonly T[]> => {
    const path = resourcePath(of, { namespace });
    const query = { labelSelector: formatLabelSelector(requirementsOf({ matchLabels: labels })) };
    return (await client.json<{ items?: readonly T[] | null }>({ path, query, signal })).items ?? [];
  };
  const slices = await list<EndpointSlice>(EndpointSlice, { 'kubernetes.io/service-name': name });
  const addresses = slices.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((each) => each.addresses ?? []));
  if (addresses.length === 0) return undefined;
  // After the slices, so that a pod is there if its address is.
  const pods = await list<Pod>(Pod, spec?.selector ?? {});
  const known = new BlockList();
  const family = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4');
  for (const { status } of pods) for (const { ip } of status?.podIPs ?? []) known.addAddress(ip, family(ip));
  return addresses.find((address) => isIP(address) === 0 || !known.check(address, family(address)));
}

function hasSelector({ spec }: Service): boolean {
  return Object.keys(spec?.selector ?? {}).length > 0;
}

function withoutSelector(name: string): string {
  return `${name} has no selector, so it may lead anywhere: use a Service with a selector, or spec.endpoint.url`;
}

/** Its name may stand for anything, another namespace's Service and the gateway's own machine included. */
function isExternalName({ spec }: Service): boolean {
  return spec?.type === 'ExternalName';
}

function externalName(name: string): string {
  return `${name} is an ExternalName, which may lead anywhere: use a Service with a selector, or spec.endpoint.url`;
}

/** Connections that are opened together share one question. What has failed, or was refused, is asked again. */
function rememberedFor(ms: number, ask: () => Promise<string | undefined>): () => Promise<string | undefined> {
  let known: { readonly answer: Promise<string | undefined>; readonly atMs: number } | undefined;
  return () => {
    const nowMs = systemClock.now();
    if (known && nowMs - known.atMs < ms) return known.answer;
    const answer = ask();
    known = { answer, atMs: nowMs };
    const forget = (): void => void (known = undefined);
    answer.then((refusal) => refusal !== undefined && forget(), forget);
    return answer;
  };
}

function certificates(base64: string): string {
  const pem = Buffer.from(base64, 'base64').toString('utf8');
  try {
    void new X509Certificate(pem);
    return pem;
  } catch {
    throw new InvalidFunctionError(
      'Reachable',
      'CertificateInvalid',
      'spec.endpoint.caBundle holds no certificate in PEM form, in base64',
    );
  }
}
