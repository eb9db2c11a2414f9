import type { LookupFunction } from 'node:net';
import { createSecureContext } from 'node:tls';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { systemClock } from '../core/index.ts';
import { type ClusterAccess, clusterAccess } from './cluster-access.ts';

/** The server of a request, the connections to it, and the headers that identify the user. */
export interface Access {
  readonly server: string;
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** PEM of the certificate authorities that verify the server. Undefined: the platform's. */
  readonly ca: string | undefined;
}

/** Options of the connections. The protocol is always HTTP/1.1: see `HTTP1`. */
export type ConnectionOptions = Omit<Agent.Options, 'connect' | 'allowH2' | 'factory'> & {
  /** Resolves the server's address. Not used with a proxy. Default: Node's. */
  readonly lookup?: LookupFunction | undefined;
};

/**
 * With HTTP/1.1 each watch has its own connection, so a slow reader of one watch delays no other.
 *
 * HTTP/2 is undici's default, and unsafe in undici 8.12. If a connection is reset at the wrong moment, its request
 * never ends (found with gateways behind a proxy that cuts connections, in 2 of 13 starts). If a request is aborted at
 * the wrong moment, its stream has an error that ends the process (found by killing gateways during writes, 1 of 5).
 */
const HTTP1 = { allowH2: false };

/** Credentials are read again after this time, as client-go does with a token file. */
const REREAD_AFTER_MS = 60_000;

/**
 * Credentials for one apiserver. All requests share the connections until the TLS material changes. Credentials are
 * read again after a minute, because an exec plugin is a process to spawn, and after a 401.
 */
export class Credentials {
  readonly server: string;
  /** The namespace of this pod; undefined unless its service account is the user. */
  readonly podNamespace: string | undefined;
  readonly #cluster: ClusterAccess;
  readonly #options: ConnectionOptions;
  #access: Access | undefined;
  #reading: Promise<Access> | undefined;
  #readAt = -Infinity;
  #tls = '';

  constructor(cluster: ClusterAccess, options: ConnectionOptions = {}) {
    this.#cluster = cluster;
    this.#options = options;
    this.server = cluster.server;
    this.podNamespace = cluster.podNamespace;
  }

  async access(): Promise<Access> {
    if (this.#access && systemClock.now() - this.#readAt <= REREAD_AFTER_MS) return this.#access;
    // All waiting requests share one read, because each read may open connections.
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Makes the next request read the credentials again. Called after a 401. */
  refresh(): void {
    this.#readAt = -Infinity;
  }

  async close(): Promise<void> {
    await this.#access?.dispatcher.destroy();
    this.#access = undefined;
  }

  async #read(): Promise<Access> {
    const { server, proxy } = this.#cluster;
    const { tls, headers } = await this.#cluster.read();
    this.#readAt = systemClock.now();
    const given = Object.entries(tls).filter(([, value]) => value !== undefined);
    // As in client-go, an authority need not be a root.
    const material = { allowPartialTrustChain: true, ...Object.fromEntries(given) };
    const fingerprint = JSON.stringify(material);
    if (this.#access && fingerprint === this.#tls) return (this.#access = { ...this.#access, headers });
    const retired = this.#access?.dispatcher;
    this.#tls = fingerprint;
    // The secure context parses the certificates once, not for each connection.
    const connect = { ...material, secureContext: createSecureContext(material) };
    const { lookup, ...options } = this.#options;
    const found = lookup ? { lookup } : {};
    const dispatcher = proxy
      ? new ProxyAgent({ uri: proxy, requestTls: connect, ...HTTP1, ...options })
      : new Agent({ connect: { ...connect, ...found, timeout: 10_000 }, ...HTTP1, ...options });
    // Graceful: running watches finish on the old connections, new requests use the new certificate.
    void retired?.close();
    return (this.#access = { server, dispatcher, headers, ca: tls.ca?.toString() });
  }
}

/** Credentials from a kubeconfig: see `clusterAccess` for the files and errors. */
export async function openCredentials(path?: string, options?: ConnectionOptions): Promise<Credentials> {
  return new Credentials(await clusterAccess(path), options);
}
