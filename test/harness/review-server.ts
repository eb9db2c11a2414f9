import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { ServingCertificate } from '../../src/gateway/certificates/serving-certificate.ts';

/** An https server that allows every review, and shows the certificate as it is at the time of each new connection. */
export class ReviewServer {
  reviews = 0;
  /** How many connections each certificate was shown to. */
  readonly handshakes = new Map<string, number>();
  readonly #server: Server;
  #shown = '';

  constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    // Connections end often, so that the certificate is checked all the time and not once.
    this.#server.maxRequestsPerSocket = 10;
    this.#server.on('secureConnection', () => {
      this.handshakes.set(this.#shown, (this.handshakes.get(this.#shown) ?? 0) + 1);
    });
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Listens before there is a certificate, since the certificate is for this address. */
  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** From now on it shows this certificate. @throws Error when there is none yet. */
  serve(certificate: ServingCertificate): void {
    const show = (): void => {
      const pair = certificate.current();
      this.#server.setSecureContext(pair);
      this.#shown = pair.cert;
    };
    show();
    certificate.onRenewed(show);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const review = JSON.parse(await text(request)) as { request: { uid: string } };
    this.reviews += 1;
    const { uid } = review.request;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ...review, request: undefined, response: { uid, allowed: true } }));
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
