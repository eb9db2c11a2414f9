import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as SecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { ServerType } from '@hono/node-server';

/** A server of a test, on a loopback port of its own. It can be closed and opened again on its port. */
export class LoopbackServer {
  readonly #server: Server | SecureServer;
  #port = 0;

  /** @param server of http or https; `createAdaptorServer` types one of HTTP/2, too. */
  constructor(server: ServerType) {
    this.#server = server as Server | SecureServer;
  }

  /** @param answer if it rejects, the client loses the connection. */
  protected answerBy(answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>): void {
    this.#server.on('request', (request, response) => {
      answer(request, response).catch(() => response.destroy());
    });
  }

  /** 0 before it was opened. */
  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `${this.#server instanceof TlsServer ? 'https' : 'http'}://127.0.0.1:${this.#port}`;
  }

  get isOpen(): boolean {
    return this.#server.listening;
  }

  /** @param port Default: any free one, and its own from the second time on. */
  async open(port = this.#port): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Breaks all connections. */
  cut(): void {
    this.#server.closeAllConnections();
  }

  /** From now on connections are refused. */
  async close(): Promise<void> {
    if (!this.isOpen) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }
}
