import { access } from 'node:fs/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { messageOf, systemClock, UserError } from '../../core/index.ts';

/** What one request needs: where to, over which connections, and the headers that say who asks. */
export interface Access {
  readonly server: string;
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Credentials for one apiserver, from client-node's KubeConfig: file, in-cluster, exec plugin, OIDC, token file.
 * Connections are shared by all requests until the TLS material changes; client-node's own would open one for each
 * request. Headers are kept for a minute, since an exec plugin is a process to spawn, and asked for anew after a 401.
 */
export class Credentials {
  readonly server: string;
  readonly #config: KubeConfig;
  #access: Access | undefined;
  #readAt = -Infinity;
  #tls = '';

  constructor(config: KubeConfig) {
    const cluster = config.getCurrentCluster();
    if (!cluster) throw new UserError('The kubeconfig names no current cluster: set current-context in it.');
    this.#config = config;
    this.server = cluster.server.replace(/\/+$/, '');
  }

  async access(): Promise<Access> {
    if (!this.#access || systemClock.now() - this.#readAt > 60_000) this.#access = await this.#read();
    return this.#access;
  }

  /** Forget what was read: the next request asks KubeConfig again. Called after a 401. */
  refresh(): void {
    this.#readAt = -Infinity;
  }

  async close(): Promise<void> {
    await this.#access?.dispatcher.destroy();
    this.#access = undefined;
  }

  async #read(): Promise<Access> {
    const options: TlsAndHeaders = {};
    await this.#config.applyToHTTPSOptions(options as Parameters<KubeConfig['applyToHTTPSOptions']>[0]);
    this.#readAt = systemClock.now();
    const { ca, cert, key, servername, rejectUnauthorized } = options;
    const connect = withoutUndefined({ ca, cert, key, servername, rejectUnauthorized });
    const proxy = this.#config.getCurrentCluster()?.proxyUrl;
    const tls = JSON.stringify([connect, proxy]);
    const headers: Record<string, string> = { ...options.headers };
    if (options.auth) headers['Authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
    if (this.#access && tls === this.#tls) return { ...this.#access, headers };
    const retired = this.#access?.dispatcher;
    this.#tls = tls;
    const dispatcher = proxy
      ? new ProxyAgent({ uri: proxy, requestTls: connect, ...LIMITS })
      : new Agent({ connect: { ...connect, timeout: 10_000 }, ...LIMITS });
    // Graceful: running watches finish on the old connections, new requests use the new certificate.
    void retired?.close();
    return { server: this.server, dispatcher, headers };
  }
}

/**
 * A watch may be silent for a long time: the reflector has a silence limit of its own. The agent uses HTTP/1.1 with a
 * connection for each watch: in one HTTP/2 connection a view that is read slowly delays the others, and a request whose
 * connection is reset at that moment never ends (undici 8.12; found by starting gateways behind a proxy that cuts, 2 of
 * 13).
 */
const LIMITS = { allowH2: false, bodyTimeout: 0, headersTimeout: 60_000, keepAliveTimeout: 30_000 };

interface TlsAndHeaders {
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
  servername?: string;
  rejectUnauthorized?: boolean;
  headers?: Record<string, string>;
  auth?: string;
}

function withoutUndefined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

/**
 * Reads a kubeconfig: `path` when given, else what client-node finds by itself (KUBECONFIG, ~/.kube/config,
 * in-cluster).
 * @throws UserError when the file is missing or is no kubeconfig.
 */
export async function loadCredentials(path?: string): Promise<Credentials> {
  const config = new KubeConfig();
  if (path === undefined) {
    config.loadFromDefault();
    return new Credentials(config);
  }
  await access(path).catch((error: unknown) => {
    throw new UserError(`The kubeconfig ${path} cannot be read (${messageOf(error)}): check the path.`);
  });
  try {
    config.loadFromFile(path);
  } catch (error) {
    throw new UserError(`The file ${path} is not a kubeconfig (${firstLine(messageOf(error))}): check its contents.`);
  }
  return new Credentials(config);
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
