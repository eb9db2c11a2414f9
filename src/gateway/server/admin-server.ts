import { once } from 'node:events';
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { messageOf, UserError } from '../../core/index.ts';
import { type HealthCheck, report } from '../manager/health.ts';
import type { Dashboard } from './dashboard.ts';
import { queueApi, type Queues } from './queue-api.ts';

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
  readonly queues: Queues;
}

/** Names under which somebody on this machine may ask for the dashboard and the queues. */
const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** The gateway's own HTTP server: `/livez`, `/readyz`, `/metrics`, and on loopback only the dashboard and `/queues`. */
export class AdminServer {
  readonly #options: AdminServerOptions;
  readonly #server: Server;
  #url = '';

  constructor(options: AdminServerOptions) {
    this.#options = options;
    this.#server = createAdaptorServer({ fetch: adminApp(options).fetch }) as Server;
  }

  /** `http://host:port`, once started. */
  get url(): string {
    return this.#url;
  }

  /** @throws UserError when the port is taken or the address is not this machine's. */
  async start(): Promise<void> {
    const { host, port } = this.#options;
    this.#server.listen(port, host);
    try {
      await once(this.#server, 'listening');
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      const reason = taken ? 'another process listens there' : messageOf(error);
      throw new UserError(`The gateway cannot listen on ${host}:${port} (${reason}): choose another with --port.`);
    }
    const address = this.#server.address();
    const actual = typeof address === 'object' && address ? address.port : port;
    this.#url = `http://${host}:${actual}`;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
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
  app.get('/livez', health(options.live));
  app.get('/readyz', health(options.ready));
  app.get('/metrics', async (context) => context.text(await options.metrics()));
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
