import { request } from 'undici';
import type { Access } from '../../kubeconfig/credentials.ts';
import type { ApiTransportAnswer, ApiTransportRequest } from '../api-transport.ts';

/**
 * Connections to one apiserver: with 32, 250 objects at once take as long as over one HTTP/2 connection, cold (0.3 s)
 * and warm; one connection for each request takes 0.9 s cold. Further requests wait. A watch would occupy a connection
 * as long as it lasts, but functions should not watch.
 *
 * An idle connection is kept for 30 s, instead of undici's 4 s, because a TLS handshake costs more than ten requests.
 * The apiserver keeps it for 90 s and load balancers for 50 s and more, so this end closes first, and no write meets a
 * connection that the other end has just closed.
 */
export const CONNECTIONS = { connections: 32, keepAliveTimeout: 30_000 };

/** Sends one request. Follows no redirect. */
export async function send(
  { server, dispatcher, headers }: Pick<Access, 'server' | 'dispatcher' | 'headers'>,
  { method, path, contentType, accept = 'application/json', body, traceparent, signal }: ApiTransportRequest,
): Promise<ApiTransportAnswer> {
  const response = await request(server + path, {
    method,
    signal,
    headers: {
      ...headers,
      accept,
      'user-agent': 'levelhook-function',
      ...(contentType ? { 'content-type': contentType } : {}),
      ...(traceparent ? { traceparent } : {}),
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
