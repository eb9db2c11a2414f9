import { X509Certificate } from 'node:crypto';
import { orUndefined, resourcePath, tenantNamed } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { variableOf } from '../../ground/config/config.ts';
import {
  checkEndpoint,
  EndpointError,
  type EndpointRules,
  isNamed,
  namesLoopback,
} from '../controller/endpoint/endpoint-rules.ts';
import type { HandshakeBudget } from '../controller/endpoint/handshakes.ts';
import { addressGuard, firstFamily, Service, serviceGuard, serviceRefusal } from './cluster-addresses.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import type { ReconcileFunctionSpec } from './reconcile-function.ts';

/** Where a ReconcileFunction's triggers go, and the connections that are allowed for that. */
export interface FunctionEndpoint {
  readonly url: string;
  readonly rules: EndpointRules;
  readonly ca: string | undefined;
}

/**
 * The namespace in a Service's name in DNS. An ingress in the cluster, such as Knative's, chooses the Service by this
 * name, so Services of all namespaces have the ingress' address.
 */
const SERVICE_NAMESPACE = /[.]([^.]+)[.]svc([.]|$)/;

/** Of the ReconcileFunction. */
interface Surroundings {
  readonly client: ApiClient;
  readonly namespace: string;
  /** The operator's list. */
  readonly allowed: readonly string[];
  /** See `EndpointRules`. */
  readonly handshakes: () => HandshakeBudget;
  readonly signal: AbortSignal;
}

/**
 * Finds where a function is: at a Service of its own namespace, or at a URL that the operator allows.
 * @throws InvalidFunctionError; ApiError when the apiserver does not answer.
 */
export async function functionEndpoint(
  { url, service, caBundle }: ReconcileFunctionSpec['endpoint'],
  where: Surroundings,
): Promise<FunctionEndpoint> {
  const ca = caBundle === undefined ? undefined : certificates(caBundle);
  if (service) return { ...(await serviceEndpoint(service, where)), ca };
  const { allowed: allow, client, handshakes, namespace, signal } = where;
  // Loopback is the gateway's own machine, so the operator must have allowed it by name, and the URL must name it: the
  // owner of a name behind a star may lead it there.
  const rules = { allow, loopback: namesLoopback(url ?? ''), tenant: tenantNamed(namespace), handshakes };
  try {
    const found = checkEndpoint(url ?? '', rules);
    const isBehindStar = !isNamed(found, allow);
    const named = SERVICE_NAMESPACE.exec(found.hostname)?.[1];
    if (isBehindStar && named !== undefined && named !== namespace) {
      const message = `${found.host} is a Service of the namespace ${named}: a star allows those of ${namespace}`;
      throw new EndpointError('EndpointNotAllowed', message);
    }
    // The owner of a name behind a star says where it leads.
    if (!isBehindStar) return { url: found.href, rules, ca };
    const family = await firstFamily(client, signal);
    return { url: found.href, rules: { ...rules, family, connectRefusal: addressGuard(client, namespace, allow) }, ca };
  } catch (error) {
    if (!(error instanceof EndpointError)) throw error;
    const remedy = error.reason === 'EndpointNotAllowed' ? ` (${variableOf('allowedEndpoints')})` : '';
    throw new InvalidFunctionError('Reachable', error.reason, `spec.endpoint.url: ${error.message}${remedy}`);
  }
}

async function serviceEndpoint(
  { name, port, path, scheme }: NonNullable<ReconcileFunctionSpec['endpoint']['service']>,
  { client, handshakes, namespace, signal }: Surroundings,
): Promise<{ url: string; rules: EndpointRules }> {
  const found = await orUndefined(client.json<Service>({ path: resourcePath(Service, { namespace, name }), signal }));
  if (!found) {
    throw new InvalidFunctionError(
      'Reachable',
      'ServiceNotFound',
      `spec.endpoint.service.name: there is no Service ${name} in ${namespace}`,
    );
  }
  const refusal = serviceRefusal(found, name);
  if (refusal) {
    throw new InvalidFunctionError('Reachable', refusal.reason, `spec.endpoint.service.name: ${refusal.message}`);
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
  const connectRefusal = serviceGuard(client, { namespace, name });
  // The apiserver finds no owner of an address of the other family.
  const family = await firstFamily(client, signal);
  return {
    // Trap: resolved against the origin a path that begins with two slashes would name another host.
    url: new URL(origin + path).href,
    rules: { allow: [origin], loopback: false, family, connectRefusal, tenant: tenantNamed(namespace), handshakes },
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
