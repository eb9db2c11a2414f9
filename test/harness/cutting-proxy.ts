import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { readFile, writeFile } from 'node:fs/promises';
import { parse, stringify } from 'yaml';

/**
 * A TCP proxy on loopback before an apiserver that breaks all its connections every few seconds, as a load balancer or
 * a network on a bad day does. TLS goes through it: the apiserver's certificate is for 127.0.0.1, whatever the port.
 */
export class CuttingProxy {
  readonly #target: { host: string; port: number };
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #timer: NodeJS.Timeout | undefined;
  #cuts = 0;
  #severed = false;
  #silent = false;

  private constructor(target: { host: string; port: number }, lagMs: number) {
    this.#target = target;
    this.#server = createServer((inside) => {
      if (this.#severed) {
        inside.resetAndDestroy();
        return;
      }
      if (this.#silent) {
        this.#keep(inside);
        return;
      }
      const outside = connect(this.#target);
      for (const [socket, other] of [
        [inside, outside],
        [outside, inside],
      ] as const) {
        this.#keep(socket);
        socket.on('close', () => {
          if (lagMs === 0) other.destroy();
          else setTimeout(() => other.destroy(), lagMs);
        });
        if (socket === inside || lagMs === 0) socket.pipe(other);
        // In order, since all wait the same time.
        else socket.on('data', (chunk) => setTimeout(() => other.writable && other.write(chunk), lagMs));
      }
    });
  }

  /**
   * @param server `https://127.0.0.1:PORT`, or another scheme
   * @param lagMs how much later than the server says it its clients hear it: a cache that lags. Default 0.
   */
  static async start(server: string, lagMs = 0): Promise<CuttingProxy> {
    const { hostname, port } = new URL(server);
    const proxy = new CuttingProxy({ host: hostname, port: Number(port) }, lagMs);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** One before the apiserver of a kubeconfig, which another kubeconfig (`kubeconfig`) leads through. */
  static async beforeApiserver(kubeconfig: string, lagMs = 0): Promise<CuttingProxy> {
    const { clusters } = parse(await readFile(kubeconfig, 'utf8')) as { clusters: { cluster: { server: string } }[] };
    return CuttingProxy.start(clusters[0]?.cluster.server ?? '', lagMs);
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How often the connections were broken. */
  get cuts(): number {
    return this.#cuts;
  }

  /** A copy of a kubeconfig, written to `path`, that leads through the proxy. */
  async kubeconfig(original: string, path: string): Promise<string> {
    const config = parse(await readFile(original, 'utf8')) as { clusters: { cluster: { server: string } }[] };
    for (const { cluster } of config.clusters) cluster.server = this.url;
    await writeFile(path, stringify(config), { mode: 0o600 });
    return path;
  }

  cutEvery(ms: number): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.cut(), ms);
  }

  /** Breaks all connections and refuses new ones, until `mend`. */
  sever(): void {
    this.#severed = true;
    this.cut();
  }

  /** Keeps all connections, takes new ones, and lets nothing through, as a machine that stands still. */
  silence(): void {
    this.#silent = true;
    this.hold();
  }

  mend(): void {
    this.#severed = false;
  }

  /** Keeps all connections and lets nothing through, as a firewall that drops packets; new ones work. */
  hold(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  cut(): void {
    this.#cuts += 1;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** From now on it lets everything pass. */
  heal(): void {
    clearInterval(this.#timer);
  }

  async stop(): Promise<void> {
    this.heal();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }
}
