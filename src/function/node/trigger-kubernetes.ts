import { rootCertificates } from 'node:tls';
import { Agent, type Dispatcher } from 'undici';
import { NewestMap } from '../../core/index.ts';
import { RUN_HEADER } from '../../contract/index.ts';
import type { ApiTransport } from '../api-transport.ts';
import type { RunCredentials } from '../run-token.ts';
import { type OpenKubernetes, secured } from '../trigger-kubernetes.ts';
import { CONNECTIONS, send } from './send.ts';

/** One dispatcher for each address and its authorities, so that the runs of a process share their connections. */
const known = new NewestMap<string, Dispatcher>(
  // More than one, because rotated authorities make a new entry.
  8,
  // Requests that are under way end first.
  (dispatcher) => void dispatcher.close(),
);

/** The Kubernetes API of a trigger over undici's own client, which trusts the authorities in `caBundle` too. */
export const undiciKubernetes: OpenKubernetes = ({ url, token, caBundle }, run) => {
  const headers = { authorization: `Bearer ${token}`, [RUN_HEADER]: String(run) };
  return secured(url, async (asked) => send({ server: url, dispatcher: dispatcherFor(url, caBundle), headers }, asked));
};

/**
 * `runTransport` of `levelhook/function/callback` for Node. It also trusts the certificate authorities in the
 * credentials.
 */
export function nodeRunTransport(credentials: RunCredentials): ApiTransport {
  return undiciKubernetes(credentials, credentials.run);
}

function dispatcherFor(url: string, caBundle: string | undefined): Dispatcher {
  const id = `${url} ${caBundle ?? ''}`;
  const found = known.get(id);
  if (found) return found;
  const pem = caBundle === undefined ? undefined : Buffer.from(caBundle, 'base64').toString('utf8');
  // As in client-go, an authority need not be a root.
  const trusted = pem === undefined ? {} : { ca: [...rootCertificates, pem], allowPartialTrustChain: true };
  const dispatcher = new Agent({ connect: trusted, allowH2: false, ...CONNECTIONS });
  known.set(id, dispatcher);
  return dispatcher;
}
