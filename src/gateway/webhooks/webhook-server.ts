import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import { isIPv6 } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { messageOf, UserError } from '../../core/index.ts';
import type { ServingCertificate } from '../certificates/serving-certificate.ts';
import { variableOf } from '../config/config.ts';
import type { ReviewApi } from './review-api.ts';

export interface WebhookServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly certificate: ServingCertificate;
  readonly api: Pick<ReviewApi, 'handle'>;
}

const LOOK_MS = 2000;
/** For answers that are being written when the server stops. */
const LAST_ANSWERS_MS = 1000;
/**
 * The apiserver closes an idle connection after 90 s (client-go). If the gateway closed it sooner, it could do so while
 * a review is on its way, which the apiserver would not send again.
 */
const KEEP_ALIVE_MS = 180_000;
/** An apiserver opens one for each review at a time, and serves 600 requests at a time by default. */
const MAX_CONNECTIONS = 4096;

/** The gateway's server for the reviews of apiservers: https alone, for apiservers speak to nothing else. */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  #server: Server | undefined;
  #url = '';
  #unwatch: () => void = () => {};

  constructor(options: WebhookServerOptions) {
    this.#options = options;
  }

  /** `https://host:port`, once started. */
  get url(): string {
    return this.#url;
  }

  /** @throws UserError when the port is taken, the address is not this machine's, or the certificate cannot be used. */
  async start(): Promise<void> {
    const { api, certificate, listen } = this.#options;
    const { host, port } = listen;
    // Both count from the connect of a connection on which nothing has come. `ReviewBodies` bounds the time of a body.
    const limits = {
      requestTimeout: KEEP_ALIVE_MS,
      headersTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: LOOK_MS,
    };
    const serverOptions = { ...limits, keepAliveTimeout: KEEP_ALIVE_MS, ...certificate.current() };
    const server = createAdaptorServer({
      fetch: (request: Request) => api.handle(request),
      createServer,
      serverOptions,
    }) as Server;
    server.maxConnections = MAX_CONNECTIONS;
    this.#server = server;
    server.listen(port, host);
    try {
      await once(server, 'listening');
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      const reason = taken ? 'another process listens there' : messageOf(error);
      const remedy = `choose another in ${variableOf('webhookListen')}`;
      throw new UserError(`The gateway cannot listen on ${host}:${port} for reviews (${reason}): ${remedy}.`);
    }
    // New connections get the new one.
    this.#unwatch = certificate.onRenewed(() => server.setSecureContext(certificate.current()));
    const address = server.address();
    const actual = typeof address === 'object' && address ? address.port : port;
    this.#url = `https://${isIPv6(host) ? `[${host}]` : host}:${actual}`;
  }

  /** Reviews that are being answered get their answers. */
  async stop(): Promise<void> {
    this.#unwatch();
    const server = this.#server;
    if (!server?.listening) return;
    const closed = once(server, 'close');
    server.close();
    // Silent connections would hold it up.
    const rest = setTimeout(() => server.closeAllConnections(), LAST_ANSWERS_MS);
    await closed;
    clearTimeout(rest);
  }
}
