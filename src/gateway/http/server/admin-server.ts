import type { Server } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { createAdaptorServer } from '@hono/node-server';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { type Clock, LimitedLines, type Logger, messageOf, type Metrics, systemClock } from '../../../core/index.ts';
import type { CertificateFiles } from '../../../contract/node/certificate-files.ts';
import { FileCertificate } from '../../certificates/serving-certificate.ts';
import { variableOf } from '../../../ground/config/config.ts';
import { ADMITTED, ClientConnections } from '../../../ground/client-connections.ts';
import { Listener } from '../../../ground/listener.ts';
import { type HealthCheck, report } from '../../process/health.ts';
import { PROFILE_PATH } from '../../../contract/node/profile-request.ts';
import type { KubernetesApi } from '../write-proxy/kubernetes-api.ts';
import { AnswerRoom } from '../cache-api/answer-room.ts';
import type { CacheApi } from '../cache-api/cache-api.ts';
import { StatusError, statusResponse, unavailable } from '../cache-api/kubernetes-status.ts';
import { sourceOf } from '../login/request.ts';
import type { LoginEnv } from '../login/visitor.ts';
import { DASHBOARD_PATH } from '../dashboard/urls.ts';
import type { DashboardData } from '../dashboard/data.ts';
import { LoginUnavailableError } from '../login/identity.ts';
import { LoginGuard, type LoginOptions } from '../login/login.ts';
import { LOGIN_PATH, LOGOUT_PATH } from '../login/login-page.ts';
import { boundedRequests } from './bounded-requests.ts';
import type { CallbackEnv } from './callback-api.ts';
import { hostCheck } from './host-check.ts';
import { queueApi, type QueueApiOptions } from './queue-api.ts';
import { readRest } from './rest-of-body.ts';
import { refuseScattered } from './scattered-bodies.ts';

export interface AdminServerOptions {
  readonly listen: ListenOptions;
  /** Alive: the process does its work. Only faults that a restart would mend belong here. */
  readonly live: ReadonlyMap<string, HealthCheck>;
  /** Ready: controllers' keys are being run. */
  readonly ready: ReadonlyMap<string, HealthCheck>;
  /** The metrics in Prometheus' text form: see `Scrapes`. */
  readonly metrics: () => Promise<string>;
  readonly apis: MountedApis;
  readonly login: AdminLogin;
  readonly logger: Logger;
  /** Of the rates of connections. Default: the system's. */
  readonly clock?: Clock;
}

/** The login for the dashboard, `/queues` and profiles. */
export interface AdminLogin {
  readonly backend: LoginOptions['backend'];
  /** Whether `/metrics` needs it too. */
  readonly metrics: boolean;
  /** Whether a request from this machine needs it too. Default false. */
  readonly onLoopback?: boolean;
  readonly auditLog: LoginOptions['auditLog'];
}

export interface ListenOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  /** Names of the server in addition to its host and the cluster's names, see `hostCheck`. Default: none. */
  readonly allowedHosts?: readonly string[];
  /** Serves https. Default: http. */
  readonly tls?: CertificateFiles | undefined;
  /** Counts the reads of the certificate. Default: they are not counted. */
  readonly metrics?: Pick<Metrics, 'count'>;
}

/** The APIs that it serves in addition to health and metrics. */
export interface MountedApis {
  /** Mounted at `DASHBOARD_PATH`: see `dashboardApp`. */
  readonly dashboard: Hono<LoginEnv>;
  readonly queues: QueueApiOptions;
  /** Served at `/views` and `/functions`. Default: there is none. */
  readonly inventory?: Pick<DashboardData, 'unavailable' | 'views' | 'functions'>;
  /** Mounted at `PROFILE_PATH`: see `profileApi`. Default: there is none. */
  readonly profiles?: Hono<LoginEnv>;
  /** Mounted at `/reconcile`: see `reconcileApi`. */
  readonly reconcile: Hono;
  /** Undefined while the gateway is starting. Default: there is none. */
  readonly cacheApi?: () => CacheApi | undefined;
  /** Mounted at `KUBERNETES_PATH`. Undefined while the gateway is starting. Default: there is none. */
  readonly kubernetesApi?: () => KubernetesApi | undefined;
  /** Mounted at `CALLBACK_PATH`: see `callbackApi`. Default: there is none. */
  readonly callbacks?: Hono<CallbackEnv>;
}

/** Where the cache API is. */
export const CACHE_PATH = '/cache';
/** Functions send callbacks here, below the one address of the gateway that they get. No resource has this path. */
export const CALLBACK_PATH = `${CACHE_PATH}/callbacks`;

/** Where functions without credentials of their own read live and write. No resource has this path either. */
export const KUBERNETES_PATH = `${CACHE_PATH}/kubernetes`;

/**
 * A request comes whole within this time, and a TLS handshake before it, or its connection is closed: node waits five
 * minutes, and two. How long it takes to
 * answer is not meant.
 */
const RECEIVE_MS = 10_000;
const METRICS_HEADERS = { 'content-type': 'text/plain; charset=UTF-8' };
/** How often node looks for late requests. */
const LOOK_MS = 2000;
/** One address may have half. Some machines give a process 20,000 in all. */
const MAX_CONNECTIONS = 8192;

/**
 * The gateway's own HTTP server: `/livez`, `/readyz`, `/metrics`, `/reconcile`, the cache API, and behind the login the
 * dashboard, `/queues` and profiles.
 */
export class AdminServer {
  readonly #options: AdminServerOptions;
  #server: Server | undefined;
  #listener: Promise<Listener> | undefined;
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
    const { host, port, tls, metrics } = this.#options.listen;
    const { fetch } = adminApp(this.#options);
    // It closes a connection half a second after an answer: see `readRest`.
    const handler = { fetch, autoCleanupIncoming: false };
    const certificate = tls && new FileCertificate(tls, metrics);
    const limits = {
      ...ADMITTED,
      requestTimeout: RECEIVE_MS,
      headersTimeout: RECEIVE_MS,
      connectionsCheckingInterval: LOOK_MS,
    };
    const secure = certificate && { ...limits, handshakeTimeout: RECEIVE_MS, ...certificate.current() };
    const server = createAdaptorServer(
      secure
        ? { ...handler, createServer: createHttpsServer, serverOptions: secure }
        : { ...handler, serverOptions: limits },
    ) as Server;
    this.#server = server;
    server.prependListener('request', refuseScattered);
    server.on('request', readRest);
    new ClientConnections(this.#options.clock ?? systemClock, MAX_CONNECTIONS).bound(server);
    this.#listener = Listener.start(server, { host, port }, { remedy: 'with --port' });
    const { address } = await this.#listener;
    if (certificate) {
      // New connections get the new one.
      this.#unwatch = certificate.onRenewed(() => {
        (server as unknown as HttpsServer).setSecureContext(certificate.current());
      });
    }
    this.#url = `${tls ? 'https' : 'http'}://${address}`;
  }

  async stop(): Promise<void> {
    this.#unwatch();
    // Also of a start that goes on.
    const listener = await this.#listener?.catch(() => undefined);
    this.#listener = undefined;
    if (!listener) return;
    const closed = listener.close();
    this.#server?.closeAllConnections();
    await closed;
  }
}

function adminApp({ listen, live, ready, metrics, apis, login: admin, logger }: AdminServerOptions): Hono {
  const { backend, auditLog, onLoopback = false } = admin;
  const listening = { host: listen.host, https: listen.tls !== undefined, loginOnLoopback: onLoopback };
  const login = new LoginGuard({ listening, backend, home: DASHBOARD_PATH, logger, auditLog });
  const lines = new LimitedLines(systemClock);
  const app = new Hono();
  app.onError((error, context) => {
    // Its body did not come: the client has hung up, or was too slow, and no answer reaches it.
    if (context.req.raw.signal.aborted) return context.text('the request is incomplete\n', 408);
    if (error instanceof StatusError) return statusResponse(error.status);
    if (error instanceof LoginUnavailableError) return context.text(`${error.message}\n`, 503, { 'retry-after': '1' });
    const fields = { path: context.req.path, error: messageOf(error) };
    lines.write('request', (more) => logger.error({ ...fields, ...more }, 'a request failed'));
    return context.text('internal error\n', 500);
  });
  const health = (checks: ReadonlyMap<string, HealthCheck>) => (context: Context) => {
    const { healthy, lines } = report(checks);
    const verbose = !healthy || context.req.query('verbose') !== undefined;
    return context.text(verbose ? `${lines.join('\n')}\n` : 'ok', healthy ? 200 : 503);
  };
  if (apis.callbacks) app.route(CALLBACK_PATH, apis.callbacks);
  const { cacheApi, kubernetesApi } = apis;
  if (kubernetesApi) {
    app.all(`${KUBERNETES_PATH}/*`, async ({ req: { raw } }) => {
      return (
        (await kubernetesApi()?.handle(raw, KUBERNETES_PATH)) ??
        statusResponse(unavailable('the gateway is starting').status)
      );
    });
  }
  if (cacheApi) {
    const answer = async ({ req: { raw } }: Context): Promise<Response> =>
      (await cacheApi()?.handle(raw, CACHE_PATH)) ?? statusResponse(unavailable('the gateway is starting').status);
    app.all(CACHE_PATH, answer).all(`${CACHE_PATH}/*`, answer);
  }
  // Routes that are mounted before this need a token or a signature.
  const isOurs = hostCheck(listen.host, listen.allowedHosts ?? []);
  app.use(async (context, next) => {
    if (isOurs(context.req.header('host') ?? '')) return next();
    return context.text(`this gateway has no such name: see ${variableOf('allowedHosts')}\n`, 403);
  });
  app.on(['POST', 'PUT', 'PATCH', 'DELETE'], ['/', '/livez', '/readyz', '/metrics'], (context) =>
    context.text('GET only\n', 405, { allow: 'GET, HEAD' }),
  );
  app.get('/livez', health(live));
  app.get('/readyz', health(ready));
  const bounded = (): MiddlewareHandler =>
    boundedRequests((context, reason) => context.text(`${reason}\n`, 503, { 'retry-after': '1' }));
  const ofStrangers = bounded();
  for (const path of ['/metrics', LOGIN_PATH, LOGOUT_PATH]) app.use(path, ofStrangers);
  if (admin.metrics) app.use('/metrics', login.guard());
  const answers = new AnswerRoom();
  app.get('/metrics', async (context) => {
    // Node drops the body of an answer to HEAD, and its bytes would count as not taken for good.
    if (context.req.method === 'HEAD') return context.body(null, 200, METRICS_HEADERS);
    const text = new TextEncoder().encode(await metrics());
    return context.body(answers.for(sourceOf(context)).body(text), 200, METRICS_HEADERS);
  });
  app.route('/reconcile', apis.reconcile);
  app.get('/', (context) => context.redirect(DASHBOARD_PATH));
  app.route('/', login.routes());
  // Their room is another: the forms of strangers may be slow.
  const ofVisitors = bounded();
  for (const path of ['/queues/*', '/views', '/functions', `${DASHBOARD_PATH}/*`]) {
    app.use(path, ofVisitors, login.guard());
  }
  const { inventory } = apis;
  if (inventory) {
    app.get('/views', async (context) => {
      const error = inventory.unavailable();
      return error === undefined ? context.json({ views: await inventory.views() }) : context.json({ error }, 503);
    });
    app.get('/functions', (context) => {
      const error = inventory.unavailable();
      return error === undefined ? context.json({ functions: inventory.functions() }) : context.json({ error }, 503);
    });
  }
  app.route('/queues', queueApi(apis.queues));
  app.route(DASHBOARD_PATH, apis.dashboard);
  if (apis.profiles) {
    app.use(`${PROFILE_PATH}/*`, ofVisitors, login.guard('all'));
    app.route(PROFILE_PATH, apis.profiles);
  }
  return app;
}
