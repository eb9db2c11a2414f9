/* oxlint-disable no-restricted-globals -- Bun has Node's `process`, and no signals of its own */
/** A controller as a Bun program. A separate entry, as for each platform. */
import { messageOf, UserError } from '../../core/index.ts';
import type { Controller } from '../controller.ts';
import { environmentApp, type FilePlatform, listenAddress } from '../environment.ts';

interface BunServer {
  readonly url: URL;
  /** @param seconds without data after which Bun closes the connection of the request. 0: never. */
  timeout(request: Request, seconds: number): void;
  /** Resolves when the running requests have ended. */
  stop(): Promise<void>;
}

/** The used part of Bun, because a package cannot depend on its types. */
declare const Bun: {
  readonly env: Record<string, string | undefined>;
  file(path: string): { text(): Promise<string> };
  serve(options: {
    hostname: string;
    port: number;
    idleTimeout: number;
    fetch(request: Request, server: BunServer): Response | Promise<Response>;
  }): BunServer;
};

const BUN: FilePlatform = {
  readFile: (path) => Bun.file(path).text(),
  fetchTrusting: (ca) => (url, init) => fetch(url, { ...init, tls: { ca } } as RequestInit),
};

/** Longer than the gateway keeps an idle connection (30 s), so that the gateway closes first. */
const IDLE_SECONDS = 75;

/**
 * Serves a controller until SIGTERM or SIGINT, as the main program of a Bun process, configured from its environment
 * (`environmentApp`, and `HOST` and `PORT` as on Node):
 *
 * ```ts
 * await serveOnBun(greeting);
 * ```
 *
 * When it listens it prints one line: `{"msg":"listening","url":"http://127.0.0.1:8080"}`. A signal stops it after the
 * running requests have ended. A second signal ends it at once.
 */
export async function serveOnBun(controller: Controller): Promise<void> {
  try {
    const app = environmentApp(controller, Bun.env, BUN);
    const { host: hostname, port } = listenAddress(Bun.env);
    const server = Bun.serve({
      hostname,
      port,
      idleTimeout: IDLE_SECONDS,
      fetch(request, server) {
        // Trap: Bun counts a request that waits for its run as idle, and would close its connection.
        server.timeout(request, 0);
        return app.fetch(request);
      },
    });
    // oxlint-disable-next-line no-console -- stdout is where a process says that it listens
    console.log(JSON.stringify({ msg: 'listening', url: server.url.origin }));
    await signalled();
    await server.stop();
    exit(0);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    // oxlint-disable-next-line no-console -- stderr is where a process says why it does not start
    console.error(messageOf(error));
    exit(1);
  }
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

function exit(code: number): never {
  // oxlint-disable-next-line unicorn/no-process-exit -- it is the main program
  process.exit(code);
}
