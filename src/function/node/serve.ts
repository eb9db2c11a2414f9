import type { Server } from 'node:http';
import type { Hono } from 'hono';
import { messageOf, UserError } from '../../core/index.ts';
import { keepMemorySmall } from '../../memory/index.ts';
import { listenAddress } from '../environment.ts';
import type { FunctionApp } from '../function-app.ts';
import type { CertificateFiles } from '../../contract/node/certificate-files.ts';
import { certificateFiles, followCertificate, readCertificate } from './certificate-files.ts';
import { Profiles } from './profiles.ts';
import { createTriggerServer } from './trigger-server.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface ServeOptions {
  /** How long running requests may go on after SIGTERM or SIGINT. Default 15, the default time of a run. */
  readonly graceSeconds?: number;
}

/**
 * Serves a function app until SIGTERM or SIGINT, as the main program of a Node process:
 *
 * ```ts
 * await serveFunction(createApp, process.env);
 * ```
 *
 * Listens on `HOST` (default 127.0.0.1) and `PORT` (default 8080; 0 for any free port). With `TLS_CERT_FILE` and
 * `TLS_KEY_FILE` (PEM; read again when they change) it serves https. Then it prints one line to stdout:
 * `{"msg":"listening","url":"http://127.0.0.1:8080"}`, with the `paths` of an app of several controllers. The gateway
 * may ask it for profiles, through requests that are signed as triggers are. A signal stops it: it accepts no new
 * connections, running requests end or are cut off after the grace period, and it exits with 0. A second signal ends it
 * at once. When it cannot start, it prints the reason in one sentence to stderr and exits with 1.
 */
export async function serveFunction(
  createApp: (environment: Environment) => Hono,
  environment: Environment,
  { graceSeconds = 15 }: ServeOptions = {},
): Promise<void> {
  // Allowed here, because this is the main program.
  keepMemorySmall();
  try {
    const app = createApp(environment);
    const files = certificateFiles(environment);
    const profiles = new Profiles();
    const server = serverOf(app, files, profiles);
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    const { host, port } = listenAddress(environment);
    const url = `${files ? 'https' : 'http'}://${await listen(server, host, port)}`;
    process.stdout.write(`${JSON.stringify({ msg: 'listening', url, ...pathsOf(app) })}\n`);
    await signalled();
    profiles.stop();
    await close(server, graceSeconds);
    exit(0);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${messageOf(error)}\n`);
    exit(1);
  }
}

/**
 * How long an idle connection stays open; the server sends this time to its clients. It is longer than clients keep a
 * connection (the gateway 30 s, an AWS load balancer 60 s), so that the client closes first. A server that closes first
 * may do so while a request is on its way; then the client gets ECONNRESET and cannot know whether the request was
 * executed. With Node's default of 5 s this happens as soon as one of the two processes stops for two seconds.
 */
const KEEP_ALIVE_MS = 75_000;

/**
 * A request must arrive whole within ten seconds, or its connection is closed; Node's default is five minutes. This
 * does not limit the run.
 */
const RECEIVE = { requestTimeout: 10_000, headersTimeout: 10_000, connectionsCheckingInterval: 2000 };

function serverOf(app: Hono, files: CertificateFiles | undefined, profiles: Profiles): Server {
  if (!files) return createTriggerServer(app, RECEIVE, profiles);
  const server = createTriggerServer(app, { ...RECEIVE, ...readCertificate(files) }, profiles);
  server.once('close', followCertificate(files, server));
  return server;
}

/** Resolves to the host and port. */
function listen(server: Server, host: string, port: number): Promise<string> {
  const name = host.includes(':') ? `[${host}]` : host;
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? new UserError(
              `${name}:${port} is in use by another program: set PORT to another port, or to 0 for a free one`,
            )
          : new UserError(`cannot listen on ${name}:${port}`, { cause: error }),
      );
    });
    server.listen(port, host, () => {
      const address = server.address();
      const chosen = typeof address === 'object' && address ? address.port : port;
      resolve(`${name}:${chosen}`);
    });
  });
}

function signalled(): Promise<void> {
  return new Promise((resolve) => {
    const onSignal = (): void => {
      // The next signal has its usual effect.
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
      resolve();
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  });
}

function close(server: Server, graceSeconds: number): Promise<void> {
  return new Promise((resolve) => {
    const cutOff = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000);
    // Trap: `close` drops the connections that are idle already, and only waits for others to become idle.
    const drop = setInterval(() => server.closeIdleConnections(), 50);
    server.close(() => {
      clearTimeout(cutOff);
      clearInterval(drop);
      resolve();
    });
  });
}

function exit(code: number): never {
  // oxlint-disable-next-line unicorn/no-process-exit -- open Redis connections would keep the process alive
  process.exit(code);
}

/** The paths of an app of several controllers; nothing for a controller at `/`. */
function pathsOf(app: Hono | FunctionApp): { readonly paths?: readonly string[] } {
  const paths = 'triggerHandlers' in app ? [...app.triggerHandlers.keys()].filter((path) => path !== '/') : [];
  return paths.length === 0 ? {} : { paths };
}
