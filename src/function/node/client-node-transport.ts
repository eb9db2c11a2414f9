import { KubeConfig, RequestContext } from '@kubernetes/client-node';
import { type Dispatcher, request } from 'undici';
import type { ApiTransport } from '../api-writer.ts';

/**
 * Reaches the apiserver with client-node's credentials (kubeconfig file, in-cluster, exec plugin, OIDC, token file), as
 * the option `api` of `createFunctionApp`. Nothing is read before the first request.
 *
 * @param path a kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.
 */
export function kubeConfigTransport(path?: string): ApiTransport {
  let config: KubeConfig | undefined;
  return async ({ method, path: url, contentType, body, signal }) => {
    config ??= sharedConnections(readConfig(path));
    const context = new RequestContext(config.getCurrentCluster()?.server ?? '', method);
    await config.applySecurityAuthentication(context);
    const dispatcher = context.getDispatcher();
    const response = await request(context.getUrl().replace(/\/+$/, '') + url, {
      method,
      signal,
      headers: {
        ...context.getHeaders(),
        accept: 'application/json',
        'user-agent': 'levelhook-function',
        ...(contentType ? { 'content-type': contentType } : {}),
      },
      body: body ?? null,
      ...(dispatcher ? { dispatcher } : {}),
    });
    const retryAfter = response.headers['retry-after'];
    return {
      status: response.statusCode,
      body: await response.body.text(),
      retryAfter: (Array.isArray(retryAfter) ? retryAfter[0] : retryAfter) ?? null,
    };
  };
}

function readConfig(path: string | undefined): KubeConfig {
  const config = new KubeConfig();
  if (path === undefined) config.loadFromDefault();
  else config.loadFromFile(path);
  return config;
}

/**
 * Makes client-node keep its connections: by itself it makes a new dispatcher, and so a new TLS connection, for each
 * request (measured: 300 reads, 300 connections). Use it on a KubeConfig whose API classes you call yourself, too.
 */
export function sharedConnections(config: KubeConfig): KubeConfig {
  const dispatchers = new Map<string, Dispatcher | undefined>();
  const inner = config as unknown as { createDispatcher(cluster: unknown, options: object): Dispatcher | undefined };
  const create = inner.createDispatcher.bind(config);
  inner.createDispatcher = (cluster, options) => {
    // Certificates that rotate are new keys, and so new connections.
    const key = JSON.stringify([cluster, options]);
    if (!dispatchers.has(key)) dispatchers.set(key, create(cluster, options));
    return dispatchers.get(key);
  };
  return config;
}
