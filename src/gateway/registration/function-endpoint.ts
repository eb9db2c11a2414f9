import { X509Certificate } from 'node:crypto';
import { type KubernetesObject, orUndefined, resource, resourcePath, systemClock } from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { variableOf } from '../config/config.ts';
import { checkEndpoint, EndpointError, type EndpointRules, namesLoopback } from '../endpoint/endpoint-rules.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import type { ReconcileFunctionSpec } from './reconcile-function.ts';

interface Service extends KubernetesObject {
  readonly spec?: {
    readonly type?: string;
    readonly ports?: readonly { readonly name?: string; readonly port: number }[];
  };
}

const Service = resource<Service>('v1', 'Service');

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
    return isExternalName(now) ? externalName(name) : undefined;
  });
  return { url: new URL(origin + path).href, rules: { allow: [origin], loopback: false, connectRefusal } };
}

/**
 * A Service that becomes an ExternalName gets no new connection after this time, which is also that of the question.
 */
const LOOK_MS = 2000;

/** Its name may stand for anything, another namespace's Service and the gateway's own machine included. */
function isExternalName({ spec }: Service): boolean {
  return spec?.type === 'ExternalName';
}

function externalName(name: string): string {
  return `${name} is an ExternalName, which may lead anywhere: use a Service with a selector, or spec.endpoint.url`;
}

/** Connections that are opened together share one question. What has failed is asked again. */
function rememberedFor<T>(ms: number, ask: () => Promise<T>): () => Promise<T> {
  let known: { readonly answer: Promise<T>; readonly atMs: number } | undefined;
  return () => {
    const nowMs = systemClock.now();
    if (known && nowMs - known.atMs < ms) return known.answer;
    const answer = ask();
    known = { answer, atMs: nowMs };
    answer.catch(() => (known = undefined));
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
