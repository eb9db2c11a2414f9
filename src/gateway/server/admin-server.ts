import { once } from 'node:events';
import type { Server } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { createAdaptorServer } from '@hono/node-server';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { messageOf, UserError } from '../../core/index.ts';
import { type HealthCheck, report } from '../manager/health.ts';
import type { CacheApi } from './cache-api/cache-api.ts';
import { statusResponse, unavailable } from './cache-api/kubernetes-status.ts';
import type { Dashboard } from './dashboard.ts';
import { queueApi, type Queues } from './queue-api.ts';
import { readTls, type TlsFiles, watchTls } from './tls.ts';

export interface AdminServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  /** Alive: the process does its work. Only what a restart would mend belongs here. */
  readonly live: ReadonlyMap<string, HealthCheck>;
  /** Ready: controllers' keys are being run. */
  readonly ready: ReadonlyMap<string, HealthCheck>;
  /** The metrics in Prometheus' text form. */
  readonly metrics: () => Promise<string>;
  readonly dashboard: Dashboard;
  /** Undefined while the gateway is starting. Default: there is none. */
  readonly cacheApi?: () => CacheApi | undefined;
  /** Serves https. Default: http. */
  readonly tls?: TlsFiles | undefined;
  /** Mounted at `/reconcile`: see `reconcileApi`. */
  readonly reconcile: Hono;
  readonly queues: Queues;
  /** Mounted at `CALLBACK_PATH`: see `callbackApi`. Default: there is none. */
  readonly callbacks?: Hono;
}

/** Where the cache API is. */
export const CACHE_PATH = '/cache';
/** Where callbacks come to: below the one address of the gateway that functions are told. No resource has this path. */
export const CALLBACK_PATH = `${CACHE_PATH}/callbacks`;

/** Names under which a browser on this machine may ask for the dashboard and the queues. */
const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);

/**
 * The gateway's own HTTP server: `/livez`, `/readyz`, `/metrics`, `/reconcile`, the cache API, and
 * on loopback only the dashboard and `/queues`.
 */
export class AdminServer {
  readonly #options: AdminServerOptions;
  #server: Server | undefined;
  #url = '';
  #unwatch: () => void = () => {};

  constructor(options: AdminServerOptions) {
    this.#options = options;
  }

  /** `http://host:port`, or https, once started. */
  get url(): string {
    return this.#url;
  }

  /** @throws UserError when the port is taken, the address is not this machine's, or the certificate cannot be used. */
  async start(): Promise<void> {
    const { host, port, tls } = this.#options;
    const { fetch } = adminApp(this.#options);
    const secure = tls && { createServer: createHttpsServer, serverOptions: readTls(tls) };
    const server = createAdaptorServer({ fetch, ...secure }) as Server;
    this.#server = server;
    server.listen(port, host);
    try {
      await once(server, 'listening');
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      const reason = taken ? 'another process listens there' : messageOf(error);
      throw new UserError(`The gateway cannot listen on ${host}:${port} (${reason}): choose another with --port.`);
    }
    if (tls) this.#unwatch = watchTls(tls, server as unknown as HttpsServer);
    const address = server.address();
    const actual = typeof address === 'object' && address ? address.port : port;
    this.#url = `${tls ? 'https' : 'http'}://${host}:${actual}`;
  }

  async stop(): Promise<void> {
    this.#unwatch();
    const server = this.#server;
    if (!server?.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }
}

function adminApp(options: AdminServerOptions): Hono {
  const app = new Hono();
  const health = (checks: ReadonlyMap<string, HealthCheck>) => (context: Context) => {
    const { healthy, lines } = report(checks);
    const verbose = !healthy || context.req.query('verbose') !== undefined;
    return context.text(verbose ? `${lines.join('\n')}\n` : 'ok', healthy ? 200 : 503);
  };
  if (options.callbacks) app.route(CALLBACK_PATH, options.callbacks);
  const { cacheApi } = options;
  if (cacheApi) {
    const answer = async ({ req: { raw } }: Context): Promise<Response> =>
      (await cacheApi()?.handle(raw, CACHE_PATH)) ?? statusResponse(unavailable('the gateway is starting').status);
    app.all(CACHE_PATH, answer).all(`${CACHE_PATH}/*`, answer);
  }
  app.get('/livez', health(options.live));
  app.get('/readyz', health(options.ready));
  app.get('/metrics', async (context) => context.text(await options.metrics()));
  app.route('/reconcile', options.reconcile);
  if (LOOPBACK.has(options.host)) {
    const { dashboard } = options;
    app.get('/', (context) => context.redirect(dashboard.path));
    // Until there is a login: on loopback only, and not for a page elsewhere that has rebound its name to loopback.
    const onLoopback: MiddlewareHandler = async (context, next) => {
      const host = (context.req.header('host') ?? '').replace(/:[0-9]+$/, '');
      if (!LOOPBACK.has(host)) return context.text('this is answered on loopback only\n', 403);
      return next();
    };
    app.use(`${dashboard.path}/*`, onLoopback, async (context, next) => {
      // bull-board's own read-only mode is checked queue by queue, and by each of its handlers: this by none of them.
      if (!['GET', 'HEAD'].includes(context.req.method)) {
        return context.text('the dashboard is read-only\n', 405, { allow: 'GET, HEAD' });
      }
      return next();
    });
    app.use('/queues/*', onLoopback);
    app.route('/queues', queueApi(options.queues));
    app.route(dashboard.path, dashboard.app);
  }
  return app;
}
