import { createSecureContext } from 'node:tls';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { systemClock } from '../core/index.ts';
import { type ClusterAccess, clusterAccess } from './cluster-access.ts';

/** What one request needs: where to, over which connections, and the headers that say who asks. */
export interface Access {
  readonly server: string;
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string | string[]>>;
}

/** Of the connections. The protocol is always HTTP/1.1: see `HTTP1`. */
export type ConnectionOptions = Omit<Agent.Options, 'connect' | 'allowH2' | 'factory'>;

/**
 * In HTTP/2, undici's default, a request whose connection is reset at the wrong moment never ends, and one that is
 * aborted at the wrong moment leaves a stream whose error ends the process (undici 8.12; found by starting gateways
 * behind a proxy that cuts, 2 of 13, and by killing gateways while a function wrote, 1 of 5).
 */
const HTTP1 = { allowH2: false };

/** Headers are read again after this, as client-go reads a token file again. */
const READ_AGAIN_MS = 60_000;

/**
 * Credentials for one apiserver. Connections are shared by all requests until the TLS material changes. What a
 * `ClusterAccess` has read is kept for a minute, since an exec plugin is a process to spawn, and read anew after a 401.
 */
export class Credentials {
  readonly server: string;
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
  }

  async access(): Promise<Access> {
    if (this.#access && systemClock.now() - this.#readAt <= READ_AGAIN_MS) return this.#access;
    // Once for all requests that come together: each read may open connections of its own.
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Forget what was read: the next request reads again. Called after a 401. */
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
    const material = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
    const fingerprint = JSON.stringify(material);
    if (this.#access && fingerprint === this.#tls) return (this.#access = { ...this.#access, headers });
    const retired = this.#access?.dispatcher;
    this.#tls = fingerprint;
    // Certificates are parsed here, and not for each connection.
    const connect = { ...material, secureContext: createSecureContext(material) };
    const dispatcher = proxy
      ? new ProxyAgent({ uri: proxy, requestTls: connect, ...HTTP1, ...this.#options })
      : new Agent({ connect: { ...connect, timeout: 10_000 }, ...HTTP1, ...this.#options });
    // Graceful: running watches finish on the old connections, new requests use the new certificate.
    void retired?.close();
    return (this.#access = { server, dispatcher, headers });
  }
}

/** Credentials from a kubeconfig: see `clusterAccess`, also for what it throws. */
export async function openCredentials(path?: string, options?: ConnectionOptions): Promise<Credentials> {
  return new Credentials(await clusterAccess(path), options);
}
