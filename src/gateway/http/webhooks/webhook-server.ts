import { createServer, type Server } from 'node:https';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import type { Clock } from '../../../core/index.ts';
import type { ClientAuthorities } from '../../certificates/client-authorities.ts';
import type { ServingCertificate } from '../../certificates/serving-certificate.ts';
import { variableOf } from '../../../ground/config/config.ts';
import { ADMITTED, ClientConnections } from '../../../ground/client-connections.ts';
import { Listener } from '../../../ground/listener.ts';
import type { ReviewApi } from './review-api.ts';

export interface WebhookServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly certificate: ServingCertificate;
  /** The authorities whose certificates identify apiservers. Undefined: no client is identified. */
  readonly authorities: ClientAuthorities | undefined;
  readonly api: Pick<ReviewApi, 'handle'>;
  readonly clock: Pick<Clock, 'now'>;
}

const LOOK_MS = 1000;
/**
 * An apiserver opens one connection for each review at a time, and serves 200 writes at a time by default. An apiserver
 * without a certificate may have half of these connections.
 */
const MAX_CONNECTIONS = 2048;
/** For answers that are being written when the server stops. */
const LAST_ANSWERS_MS = 1000;
/**
 * The apiserver closes an idle connection after 90 s (client-go). If the gateway closed it sooner, it could do so while
 * a review is on its way, which the apiserver would not send again.
 */
const KEEP_ALIVE_MS = 180_000;
/** As `REQUEST_MS` of the connections, for a client without a certificate. */
const HANDSHAKE_MS = 10_000;

/**
 * The gateway's server for the reviews of apiservers: https alone, for apiservers speak to nothing else. It asks
 * clients for a certificate if it has authorities for them, and takes the others all the same: the apiserver has none
 * for conversions.
 */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  readonly #connections: ClientConnections;
  #listener: Promise<Listener> | undefined;
  #url = '';
  #unwatch: () => void = () => {};

  constructor(options: WebhookServerOptions) {
    this.#options = options;
    this.#connections = new ClientConnections(options.clock, MAX_CONNECTIONS);
  }

  /** `https://host:port`, once started. */
  get url(): string {
    return this.#url;
  }

  /** @throws UserError when the port is taken, the address is not this machine's, or the certificate cannot be used. */
  async start(): Promise<void> {
    const { api, authorities, certificate, listen } = this.#options;
    const connections = this.#connections;
    const secure = () => ({ ...certificate.current(), ...(authorities ? { ca: authorities.current() } : {}) });
    const serverOptions = {
      ...ADMITTED,
      // Both count from the connect of a connection on which nothing has come. `connections` and `ReviewBodies` bound
      // the times of clients that are not known.
      requestTimeout: KEEP_ALIVE_MS,
      headersTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: LOOK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      handshakeTimeout: HANDSHAKE_MS,
      requestCert: authorities !== undefined,
      rejectUnauthorized: false,
      ...secure(),
    };
    const answer = async (request: Request, { incoming: { socket } }: HttpBindings): Promise<Response> => {
      const response = await api.handle(request, connections.sourceOf(socket));
      if (connections.isOld(socket)) response.headers.set('connection', 'close');
      return response;
    };
    const server = createAdaptorServer({
      fetch: (request, bindings) => answer(request, bindings as HttpBindings),
      createServer,
      serverOptions,
    }) as Server;
    connections.bound(server);
    const remedy = `in ${variableOf('webhookListen')}`;
    this.#listener = Listener.start(server, listen, { use: ' for reviews', remedy });
    const { address } = await this.#listener;
    // New connections get the new one.
    const unwatch = [
      certificate.onRenewed(() => server.setSecureContext(secure())),
      authorities?.onRenewed(() => {
        server.setSecureContext(secure());
        connections.checkAgain();
      }),
    ];
    this.#unwatch = () => unwatch.forEach((end) => end?.());
    this.#url = `https://${address}`;
  }

  /** Reviews that are being answered get their answers. */
  async stop(): Promise<void> {
    this.#unwatch();
    // Also of a start that goes on.
    const listener = await this.#listener?.catch(() => undefined);
    this.#listener = undefined;
    if (!listener) return;
    const closed = listener.close();
    // Silent connections would hold it up.
    const rest = setTimeout(() => this.#connections.closeAll(), LAST_ANSWERS_MS);
    await closed;
    clearTimeout(rest);
  }
}
