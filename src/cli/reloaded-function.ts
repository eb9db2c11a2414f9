import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf, UserError } from '../core/index.ts';
import type { OutputLine } from '../testing/process/owned-process.ts';
import { Child } from './child.ts';
import { whyEnded } from './family.ts';
import type { FunctionProgram } from './function-program.ts';
import { listeningUrls } from './listening.ts';

export interface ReloadedFunctionOptions {
  readonly program: FunctionProgram;
  /** The environment of the program, but for `HOST` and `PORT`. */
  readonly env: NodeJS.ProcessEnv;
  /** Its output once it is up. */
  readonly onLine: (line: OutputLine) => void;
  readonly say: (line: string) => void;
}

/** One process of the function, from its files as they were at its start. */
interface Version {
  readonly child: Child;
  readonly urls: readonly URL[];
  /** Requests that it has not answered yet. */
  requests: number;
  /** Called when there are none left. */
  onIdle: () => void;
}

/**
 * A function whose program is started again when its files change, at addresses that stay the same. A new version gets
 * requests once it listens; the one before it answers the requests that it has, and then ends. A version that does not
 * come up leaves the one before it in place.
 */
export class ReloadedFunction {
  readonly #options: ReloadedFunctionOptions;
  readonly #front: Server;
  /** Holds the process that gets the requests, older ones that still answer, and one that starts. */
  readonly #children = new Set<Child>();
  #version: Version | undefined;
  #isStopping = false;

  constructor(options: ReloadedFunctionOptions) {
    this.#options = options;
    this.#front = createServer((incoming, outgoing) => this.#forward(incoming, outgoing));
  }

  /**
   * Starts the program from its files as they are now.
   * @returns the URLs of its controllers.
   * @throws UserError when the program does not start. Its output has been printed by then.
   */
  async reload(): Promise<string[]> {
    const next = await this.#start();
    const before = this.#version;
    this.#version = next;
    if (before) void this.#end(before);
    const origin = await this.#origin();
    return next.urls.map(({ pathname }) => origin + (pathname === '/' ? '' : pathname));
  }

  async stop(): Promise<void> {
    this.#front.close();
    this.#front.closeIdleConnections();
    this.#isStopping = true;
    await Promise.all([...this.#children].map((child) => child.stop()));
    this.#front.closeAllConnections();
  }

  async #start(): Promise<Version> {
    const { env, onLine, program, say } = this.#options;
    if (program.build) await this.#build(program.build);
    const listening = Promise.withResolvers<URL[]>();
    const child = this.#spawn(`function ${program.name}`, program.command, {
      env: { ...env, HOST: '127.0.0.1', PORT: '0' },
      onLine: (line) => {
        const urls = listeningUrls(line);
        if (urls) listening.resolve(urls.map((url) => new URL(url)));
        else onLine(line);
      },
    });
    const failed = child.ended.then((end): never => {
      throw new UserError(whyEnded(child.name, end, say));
    });
    const urls = await Promise.race([listening.promise, failed]);
    failed.catch((error: unknown) => {
      if (!child.isStopping) say(`${messageOf(error)} It starts again when a file changes.`);
    });
    child.show();
    return { child, urls, requests: 0, onIdle: () => {} };
  }

  async #build(command: readonly string[]): Promise<void> {
    const { env, program, say } = this.#options;
    const child = this.#spawn(`the build of ${program.name}`, command, { cwd: program.folder, env, onLine: () => {} });
    const end = await child.ended;
    if (end.code !== 0) throw new UserError(whyEnded(child.name, end, say));
  }

  #spawn(...options: ConstructorParameters<typeof Child>): Child {
    // A stop came during the build.
    if (this.#isStopping) throw new UserError(`${options[0]} is not started: it was stopped.`);
    const child = new Child(...options);
    this.#children.add(child);
    void child.ended.then(() => this.#children.delete(child));
    return child;
  }

  async #end(version: Version): Promise<void> {
    if (version.requests > 0) await new Promise<void>((resolve) => (version.onIdle = resolve));
    await version.child.stop();
  }

  async #origin(): Promise<string> {
    if (!this.#front.listening) {
      await new Promise<void>((resolve, reject) => {
        this.#front.once('error', reject).listen(0, '127.0.0.1', resolve);
      });
    }
    return `http://127.0.0.1:${(this.#front.address() as AddressInfo).port}`;
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const version = this.#version;
    const [url] = version?.urls ?? [];
    if (!version || !url) return void outgoing.writeHead(503).end();
    version.requests += 1;
    const { headers, method } = incoming;
    const { hostname, port } = url;
    const sent = request({ hostname, port, method, path: incoming.url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
      // The connection breaks for the gateway as it does here, so that it does not take half an answer for a whole one.
      answer.on('error', () => outgoing.destroy());
    });
    sent.on('error', () => outgoing.destroy());
    outgoing.on('close', () => {
      sent.destroy();
      version.requests -= 1;
      if (version.requests === 0) version.onIdle();
    });
    incoming.pipe(sent);
  }
}
