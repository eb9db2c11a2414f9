import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type buildConnector, type Dispatcher, ProxyAgent, request } from 'undici';
import { type Access, type Credentials, openCredentials } from '../../kubeconfig/credentials.ts';
import type { ApiTransport, ApiTransportAnswer, ApiTransportRequest } from '../api-transport.ts';

/**
 * Reaches the apiserver as the user of a kubeconfig or of the pod (client certificate, token, token file; exec plugin
 * and OIDC by client-node), as the option `api` of `createFunctionApp`. Nothing is read before the first request.
 *
 * @param path a kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.
 */
export function kubeConfigTransport(path?: string): ApiTransport {
  let credentials: Promise<Credentials> | undefined;
  return async (asked) => {
    credentials ??= openCredentials(path, CONNECTIONS).catch((error: unknown) => {
      // The next request reads it again.
      credentials = undefined;
      throw error;
    });
    const opened = await credentials;
    const answer = await send(await opened.access(), asked);
    if (answer.status === 401) opened.refresh();
    return answer;
  };
}

/** Sends one request. Follows no redirect. */
export async function send(
  { server, dispatcher, headers }: Pick<Access, 'server' | 'dispatcher' | 'headers'>,
  { method, path, contentType, accept = 'application/json', body, signal }: ApiTransportRequest,
): Promise<ApiTransportAnswer> {
  const response = await request(server + path, {
    method,
    signal,
    headers: {
      ...headers,
      accept,
      'user-agent': 'levelhook-function',
      ...(contentType ? { 'content-type': contentType } : {}),
    },
    body: body ?? null,
    // A DELETE has its options in its body. undici would close the connection then, since some servers misread it.
    reset: false,
    dispatcher,
  });
  const retryAfter = response.headers['retry-after'];
  return {
    status: response.statusCode,
    body: await response.body.text(),
    retryAfter: (Array.isArray(retryAfter) ? retryAfter[0] : retryAfter) ?? null,
  };
}

/**
 * Makes client-node keep its connections: by itself it makes a new dispatcher, and so a new TLS connection, for each
 * request (measured: 300 reads, 300 connections). Use it on a KubeConfig whose API classes you call yourself, too.
 */
export function sharedConnections(config: KubeConfig): KubeConfig {
  const known: { readonly key: Fields; readonly dispatcher: Dispatcher }[] = [];
  const inner = config as unknown as WithDispatcher;
  const create = inner.createDispatcher.bind(config);
  inner.createDispatcher = (cluster, options) => {
    // Certificates that rotate are new keys, and so new connections.
    const key = { ...cluster, ...options };
    const found = known.find((each) => isSame(each.key, key));
    if (found) return found.dispatcher;
    const dispatcher = http1(config.createDispatcherOptions(cluster, options)) ?? create(cluster, options);
    known.push({ key, dispatcher });
    return dispatcher;
  };
  return config;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Field by field, certificates by their bytes: it is asked at each request, and their JSON takes a fifth of its time.
 */
function isSame(a: Fields, b: Fields): boolean {
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => {
    const [one, other] = [a[name], b[name]];
    if (one === other) return true;
    if (one instanceof Uint8Array && other instanceof Uint8Array) return Buffer.compare(one, other) === 0;
    return typeof one === 'object' && JSON.stringify(one) === JSON.stringify(other);
  });
}

/**
 * Connections to one apiserver: 32 make 250 objects at once as fast as one HTTP/2 connection does, cold (0.3 s) and
 * warm, and one for each request takes 0.9 s cold. More requests wait their turn. A watch would hold one for as long as
 * it lasts, but a function has no business with watches.
 *
 * An idle connection is kept for 30 s, undici's own time is 4 s: a TLS handshake costs more than ten requests. The
 * apiserver keeps it for 90 s and load balancers for 50 s and more, so this end closes first, and no write meets a
 * connection that the other end has just closed.
 */
export const CONNECTIONS = { connections: 32, keepAliveTimeout: 30_000 };
const HTTP1 = { allowH2: false, ...CONNECTIONS };

type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>;
interface WithDispatcher {
  createDispatcher(...args: Parameters<KubeConfig['createDispatcherOptions']>): Dispatcher;
}

/**
 * The dispatcher that client-node would make, but for HTTP/1.1. In HTTP/2, undici's default, a request that is aborted
 * at the wrong moment leaves a stream whose error is unhandled once the connection has been idle for four seconds, and
 * Node ends the process (undici 8.12, "socket idle timeout"; found by killing gateways while the function wrote, 1 of
 * 5).
 * @returns nothing for a SOCKS proxy: client-node's own connections to it speak HTTP/1.1 anyway.
 */
function http1(options: DispatcherOptions): Dispatcher | undefined {
  // The same options, as the two packages' types have them.
  type Connect = buildConnector.BuildOptions;
  switch (options.type) {
    case 'agent':
      return new Agent({ connect: options.connect as Connect, ...HTTP1 });
    case 'proxy':
      return new ProxyAgent({ uri: options.uri, requestTls: options.requestTls as Connect, ...HTTP1 });
    case 'none':
      return new Agent({ ...HTTP1 });
    case 'socks':
      return undefined;
  }
}
