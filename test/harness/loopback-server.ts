import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** An http server on loopback. It can be closed and opened again on its port. */
export abstract class LoopbackServer {
  readonly #server: Server = createServer((request, response) => {
    this.answer(request, response).catch(() => response.destroy());
  });
  #port = 0;

  /** If it rejects, the client loses the connection. */
  protected abstract answer(request: IncomingMessage, response: ServerResponse): Promise<void>;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address === 'object' && address) this.#port = address.port;
  }

  /** From now on connections are refused. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
