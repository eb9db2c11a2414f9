import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from 'undici';
import { type Credentials, openCredentials } from '../../kubeconfig/credentials.ts';
import type { ApiTransport } from '../api-transport.ts';
import { CONNECTIONS, send } from './send.ts';

/**
 * Reaches the apiserver as the user of a kubeconfig or of the pod (client certificate, token, token file; exec plugin
 * and OIDC through client-node). For the option `api` of `createFunctionApp`. It reads nothing before the first
 * request.
 *
 * @param path a kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.
 */
export function kubeConfigTransport(path?: string): ApiTransport {
  let credentials: Promise<Credentials> | undefined;
  return async (asked) => {
    credentials ??= openCredentials(path, CONNECTIONS).catch((error: unknown) => {
      // The next request reads the kubeconfig again.
      credentials = undefined;
      throw error;
    });
    const opened = await credentials;
    const answer = await send(await opened.access(), asked);
    if (answer.status === 401) opened.refresh();
    return answer;
  };
}

/**
 * Makes client-node keep its connections. By itself it makes a new dispatcher, and so a new TLS connection, for each
 * request (measured: 300 reads, 300 connections). Also use it on a KubeConfig whose API classes you call yourself.
 */
export function sharedConnections<Config extends ClientNodeConfig>(config: Config): Config {
  const known: { readonly key: Fields; readonly dispatcher: Dispatcher }[] = [];
  const inner = config as unknown as WithDispatcher;
  const create = inner.createDispatcher.bind(inner);
  inner.createDispatcher = (cluster, options) => {
    // Rotated certificates are a new key, and so get new connections.
    const key = { ...cluster, ...options };
    const found = known.find((each) => isSame(each.key, key));
    if (found) return found.dispatcher;
    const dispatcher = http1(inner.createDispatcherOptions(cluster, options)) ?? create(cluster, options);
    known.push({ key, dispatcher });
    return dispatcher;
  };
  return config;
}

/** The used part of client-node's KubeConfig, because its types are missing when the package is not installed. */
export interface ClientNodeConfig {
  createDispatcherOptions(...args: never[]): object;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Compares field by field, and certificates by their bytes. It runs for each request, and their JSON would take a fifth
 * of the request's time.
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

const HTTP1 = { allowH2: false, ...CONNECTIONS };

type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>;
interface WithDispatcher extends Pick<KubeConfig, 'createDispatcherOptions'> {
  createDispatcher(...args: Parameters<KubeConfig['createDispatcherOptions']>): Dispatcher;
}

/**
 * The dispatcher that client-node would make, but for HTTP/1.1. In HTTP/2, undici's default, a request that is aborted
 * at the wrong moment leaves a stream whose error is unhandled once the connection has been idle for four seconds, and
 * Node ends the process (undici 8.12, "socket idle timeout"; found by killing gateways while the function wrote, 1 of
 * 5).
 * @returns undefined for a SOCKS proxy: client-node's own connections to it speak HTTP/1.1 anyway.
 */
function http1(options: DispatcherOptions): Dispatcher | undefined {
  // The same options in the other package's types.
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
