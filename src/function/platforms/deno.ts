/** A controller as a Deno program. A separate entry, as for each platform. */
import { messageOf, UserError } from '../../core/index.ts';
import type { Controller } from '../controller.ts';
import { environmentApp, type FilePlatform, listenAddress } from '../environment.ts';

/** The used part of Deno, because a package cannot depend on its types. */
declare const Deno: {
  readonly env: { toObject(): Record<string, string> };
  readTextFile(path: string): Promise<string>;
  createHttpClient(options: { caCerts: string[] }): object;
  serve(
    options: { hostname: string; port: number; onListen: (address: { hostname: string; port: number }) => void },
    handler: (request: Request) => Response | Promise<Response>,
  ): { shutdown(): Promise<void>; readonly finished: Promise<void> };
  addSignalListener(signal: 'SIGTERM' | 'SIGINT', listener: () => void): void;
  exit(code: number): never;
};

const DENO: FilePlatform = {
  readFile: (path) => Deno.readTextFile(path),
  fetchTrusting(ca) {
    const client = Deno.createHttpClient({ caCerts: [ca] });
    return (url, init) => fetch(url, { ...init, client } as RequestInit);
  },
};

/**
 * Serves a controller until SIGTERM or SIGINT, as the main program of a Deno process, configured from its environment
 * (`environmentApp`, and `HOST` and `PORT` as on Node):
 *
 * ```ts
 * await serveOnDeno(greeting);
 * ```
 *
 * When it listens it prints one line: `{"msg":"listening","url":"http://127.0.0.1:8080"}`. A signal stops it after the
 * running requests have ended. A second signal ends it at once.
 */
export async function serveOnDeno(controller: Controller): Promise<void> {
  try {
    const environment = Deno.env.toObject();
    const app = environmentApp(controller, environment, DENO);
    const { host: hostname, port } = listenAddress(environment);
    const onListen = (address: { hostname: string; port: number }): void => {
      const name = address.hostname.includes(':') ? `[${address.hostname}]` : address.hostname;
      // oxlint-disable-next-line no-console -- stdout is where a process says that it listens
      console.log(JSON.stringify({ msg: 'listening', url: `http://${name}:${address.port}` }));
    };
    const server = Deno.serve({ hostname, port, onListen }, (request) => app.fetch(request));
    let stopping = false;
    const stop = (): void => {
      if (stopping) Deno.exit(1);
      stopping = true;
      void server.shutdown();
    };
    Deno.addSignalListener('SIGTERM', stop);
    Deno.addSignalListener('SIGINT', stop);
    await server.finished;
    // Signal listeners keep the process alive.
    Deno.exit(0);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    // oxlint-disable-next-line no-console -- stderr is where a process says why it does not start
    console.error(messageOf(error));
    Deno.exit(1);
  }
}
