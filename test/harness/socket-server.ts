import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** Answers on bare sockets, on loopback. */
export class SocketServer {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  /** @param serve is called with each connection. */
  constructor(serve: (socket: Socket) => void) {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      serve(socket);
    });
  }

  /** @returns its URL. */
  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Ends all connections, too. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
