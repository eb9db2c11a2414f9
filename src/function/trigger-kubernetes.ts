import { type KubernetesLocation, RUN_HEADER } from '../contract/index.ts';
import { isSecureUrl } from '../contract/secure-url.ts';
import type { ApiTransport } from './api-transport.ts';
import { fetchTransport } from './fetch-transport.ts';

/** Opens the Kubernetes API that a trigger names, for one of its runs. Does not throw: the requests reject. */
export type OpenKubernetes = (location: KubernetesLocation, run: number) => ApiTransport;

/** Uses `fetch`, which cannot trust the authorities of `caBundle`: the platform must trust the certificate. */
export const fetchKubernetes: OpenKubernetes = ({ url, token }, run) => {
  // A token goes to the address of the signed trigger, and to no other.
  const fetchHere: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set(RUN_HEADER, String(run));
    return fetch(input, { ...init, redirect: 'manual', headers });
  };
  return secured(url, fetchTransport({ server: url, token: () => token, fetch: fetchHere }));
};

/** Refuses to send to a URL that must not receive a token. */
export function secured(url: string, transport: ApiTransport): ApiTransport {
  if (isSecureUrl(url)) return transport;
  return () => Promise.reject(new Error('the Kubernetes API of the trigger is neither https nor on loopback'));
}
