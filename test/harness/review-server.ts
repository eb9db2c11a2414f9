import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { text } from 'node:stream/consumers';
import type { ServingCertificate } from '../../src/gateway/certificates/serving-certificate.ts';
import { LoopbackServer } from './loopback-server.ts';

/**
 * An https server that allows every review, and shows the certificate as it is at the time of each new connection. It
 * listens before there is a certificate, since the certificate is for its address.
 */
export class ReviewServer extends LoopbackServer {
  reviews = 0;
  /** How many connections each certificate was shown to. */
  readonly handshakes = new Map<string, number>();
  readonly #server: Server;
  #shown = '';

  constructor() {
    const server = createServer();
    super(server);
    this.#server = server;
    this.answerBy((request, response) => this.#answer(request, response));
    // Connections end often, so that the certificate is checked all the time and not once.
    server.maxRequestsPerSocket = 10;
    server.on('secureConnection', () => {
      this.handshakes.set(this.#shown, (this.handshakes.get(this.#shown) ?? 0) + 1);
    });
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
}
