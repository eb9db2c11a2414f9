import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { LoopbackServer } from './loopback-server.ts';

interface ClusterConfig {
  cluster: { server: string; 'certificate-authority-data'?: string; 'insecure-skip-tls-verify'?: boolean };
}

/**
 * A reverse proxy on loopback before an apiserver that keeps back the answers that a test names. The requests
 * themselves take effect at once: whoever waits for such an answer is in the middle of a write.
 */
export class HoldingProxy extends LoopbackServer {
  /** How many answers are kept back now. */
  held = 0;
  /** How much later than the apiserver tells it the events of watches arrive. */
  watchLagMs = 0;
  readonly #agent: Agent;
  readonly #target: URL;
  #isHeld: (incoming: IncomingMessage) => boolean = () => false;
  #released = Promise.withResolvers<void>();

  private constructor(target: URL, ca: Buffer) {
    super(createServer());
    this.#target = target;
    this.#agent = new Agent({ ca, keepAlive: true });
    this.answerBy(async (incoming, outgoing) => this.#forward(incoming, outgoing));
  }

  /** @param kubeconfig its clusters' server is the target. */
  static async start(kubeconfig: string): Promise<HoldingProxy> {
    const { clusters } = parse(await readFile(kubeconfig, 'utf8')) as { clusters: ClusterConfig[] };
    const cluster = clusters[0]?.cluster;
    const ca = Buffer.from(cluster?.['certificate-authority-data'] ?? '', 'base64');
    const proxy = new HoldingProxy(new URL(cluster?.server ?? ''), ca);
    await proxy.open();
    return proxy;
  }

  /** A kubeconfig with the same users that leads through the proxy. */
  async kubeconfig(from: string, directory: string): Promise<string> {
    const config = parse(await readFile(from, 'utf8')) as { clusters: ClusterConfig[] };
    for (const each of config.clusters) each.cluster = { server: this.url, 'insecure-skip-tls-verify': true };
    const path = join(directory, 'holding.kubeconfig');
    await writeFile(path, stringify(config), { mode: 0o600 });
    return path;
  }

  /** From now on these answers are kept back, until `release`. */
  hold(isHeld: (incoming: IncomingMessage) => boolean): void {
    this.#released = Promise.withResolvers();
    this.#isHeld = isHeld;
  }

  release(): void {
    this.#isHeld = () => false;
    this.#released.resolve();
  }

  override async close(): Promise<void> {
    this.release();
    await super.close();
    this.#agent.destroy();
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { hostname, port } = this.#target;
    const isHeld = this.#isHeld(incoming);
    const { url: path, method, headers } = incoming;
    const upstream = request({ hostname, port, path, method, headers, agent: this.#agent }, (answer) => {
      void this.#passOn(answer, outgoing, { isHeld, isWatch: path?.includes('watch=') ?? false });
    });
    upstream.on('error', () => outgoing.destroy());
    // A watch ends with its client; a write does not.
    outgoing.on('close', () => {
      if (method === 'GET') upstream.destroy();
    });
    incoming.pipe(upstream);
  }

  async #passOn(
    answer: IncomingMessage,
    outgoing: ServerResponse,
    { isHeld, isWatch }: { isHeld: boolean; isWatch: boolean },
  ): Promise<void> {
    if (isHeld) {
      this.held += 1;
      await this.#released.promise;
      this.held -= 1;
    }
    answer.on('error', () => outgoing.destroy());
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    if (!isWatch) return void answer.pipe(outgoing);
    outgoing.flushHeaders();
    // In order, as long as nobody changes the lag.
    answer.on('data', (chunk) => setTimeout(() => outgoing.write(chunk), this.watchLagMs));
    answer.on('end', () => setTimeout(() => outgoing.end(), this.watchLagMs));
  }
}
