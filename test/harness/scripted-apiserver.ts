import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { ApiStatus, KubernetesObject } from '../../src/core/index.ts';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { Credentials } from '../../src/kubeconfig/credentials.ts';
import { LoopbackServer } from './loopback-server.ts';

/**
 * An apiserver that says what the test says, for what a real one does not do on demand. Requests are answered in the
 * order in which they come, one by one, by the test: `const asked = await server.next()`, then `asked.list(...)`.
 */
export class ScriptedApiserver implements AsyncDisposable {
  readonly client: ApiClient;
  readonly #server: LoopbackServer;
  readonly #credentials: Credentials;
  readonly #waiting: Exchange[] = [];
  readonly #takers: ((exchange: Exchange) => void)[] = [];
  /** Requests so far. */
  asked = 0;

  private constructor(server: LoopbackServer) {
    this.#server = server;
    this.#credentials = new Credentials({ server: server.url, read: async () => ({ tls: {}, headers: {} }) });
    this.client = new ApiClient(this.#credentials);
  }

  static async start(): Promise<ScriptedApiserver> {
    const http = createServer();
    const server = new LoopbackServer(http);
    await server.open();
    const apiserver = new ScriptedApiserver(server);
    http.on('request', (request, response) => apiserver.#take(new Exchange(request, response)));
    return apiserver;
  }

  #take(exchange: Exchange): void {
    this.asked += 1;
    const taker = this.#takers.shift();
    if (taker) taker(exchange);
    else this.#waiting.push(exchange);
  }

  /** The next request, past or to come. */
  next(): Promise<Exchange> {
    const exchange = this.#waiting.shift();
    if (exchange) return Promise.resolve(exchange);
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  /** From now on each request is answered with this: an object, or undefined for a 404. */
  answer(say: (path: string, body: unknown, query: Exchange['query']) => object | undefined): void {
    const next = async (): Promise<void> => {
      const exchange = await this.next();
      const found = say(exchange.path, await exchange.body(), exchange.query);
      if (found) exchange.object(found);
      else exchange.refuse(404, { reason: 'NotFound' });
      await next();
    };
    void next();
  }

  /** From now on its port refuses connections. */
  async stopListening(): Promise<void> {
    await this.#server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#credentials.close();
    await this.#server.close();
  }
}

type EventType = 'ADDED' | 'MODIFIED' | 'DELETED';

/** One request and the answer that the test gives to it. */
export class Exchange {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Resolves when the connection is closed, by whomever. */
  readonly closed: Promise<void>;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    const url = new URL(request.url ?? '/', 'http://scripted');
    this.path = url.pathname;
    this.query = Object.fromEntries(url.searchParams);
    this.#response = response;
    this.closed = new Promise((resolve) => response.once('close', resolve));
    // A client that hangs up in the middle of an answer is no concern of the script.
    response.on('error', () => {});
  }

  get accept(): string | undefined {
    return this.#request.headers.accept;
  }

  get isWatch(): boolean {
    return this.query['watch'] === 'true';
  }

  /** What was sent, as JSON; undefined without a body. */
  async body(): Promise<unknown> {
    const text = Buffer.concat((await this.#request.toArray()) as Buffer[]).toString('utf8');
    return text === '' ? undefined : (JSON.parse(text) as unknown);
  }

  object(object: object): void {
    this.#json(200, object);
  }

  /** A list, or one page of it. Its items have no kind, as a real one's. */
  list(items: readonly KubernetesObject[], version: string, continueToken?: string): void {
    const bare = items.map(({ apiVersion: _a, kind: _k, ...item }) => item);
    const metadata = { resourceVersion: version, ...(continueToken ? { continue: continueToken } : {}) };
    this.#json(200, { kind: 'List', apiVersion: 'v1', metadata, items: bare });
  }

  refuse(code: number, status: ApiStatus = {}, headers: Readonly<Record<string, string>> = {}): void {
    this.#json(code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, ...status }, headers);
  }

  /** Opens the stream of a watch without an event. */
  open(): this {
    if (!this.#response.headersSent) {
      this.#response.writeHead(200, { 'content-type': 'application/json' });
      this.#response.flushHeaders();
    }
    return this;
  }

  event(type: EventType, ...objects: KubernetesObject[]): this {
    for (const object of objects) this.raw(`${JSON.stringify({ type, object })}\n`);
    return this;
  }

  bookmark(resourceVersion: string, annotations?: Record<string, string>): this {
    const object = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { resourceVersion, ...(annotations ? { annotations } : {}) },
    };
    return this.raw(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
  }

  /** The end of a streaming list. */
  initialEventsEnd(resourceVersion: string): this {
    return this.bookmark(resourceVersion, { 'k8s.io/initial-events-end': 'true' });
  }

  error(status: ApiStatus): this {
    return this.raw(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', apiVersion: 'v1', ...status } })}\n`);
  }

  raw(text: string | Buffer): this {
    this.open();
    this.#response.write(text);
    return this;
  }

  /** In order. */
  end(): void {
    this.open();
    this.#response.end();
  }

  /** In the middle of it. */
  cut(): void {
    this.#response.socket?.destroy();
  }

  #json(code: number, body: object, headers: Readonly<Record<string, string>> = {}): void {
    this.#response.writeHead(code, { 'content-type': 'application/json', ...headers });
    this.#response.end(JSON.stringify(body));
  }
}
