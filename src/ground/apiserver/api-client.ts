import type { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import {
  ApiError,
  BodyBuffer,
  formatBody,
  type Metrics,
  parseJson,
  parseRetryAfter,
  silentMetrics,
  statusFrom,
  tenantOf,
  TenantTurns,
} from '../../core/index.ts';
import { weightOf } from '../json-weight.ts';
import { TimeSlice } from '../time-slice.ts';
import type { Credentials } from './credentials.ts';
import type { FlowControl } from './flow-control.ts';

/** Answers up to this size are parsed at once: in a millisecond or two, whatever they hold. */
const SMALL_BYTES = 64 * 1024;
const parses = new TenantTurns(1);

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Query;
  readonly body?: unknown;
  /** For a PATCH: which kind. Default `application/json`. */
  readonly contentType?: string;
  /** Default `application/json`. */
  readonly accept?: string;
  /** The largest JSON answer that is read to its end, in bytes. Default: no bound. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A request that is passed on: see `ApiClient.forward`. */
export interface ForwardedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
  /** The user that the request is made as. The apiserver adds the groups of a ServiceAccount by itself. */
  readonly user: string;
  readonly signal: AbortSignal;
}

export interface ForwardedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Readable;
}

/** The requests of one controller, as flow control counts them. */
interface ApiFlow {
  readonly controller: string;
  /**
   * Its requests go ahead of the controller's others, and do not wait for others to end: for small and rare requests
   * that others depend on. Default false.
   */
  readonly isUrgent?: boolean;
}

interface RequestOptions {
  readonly dispatcher: Dispatcher;
  readonly method: NonNullable<ApiRequest['method']>;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string | Uint8Array | null;
  readonly reset?: boolean;
  readonly signal: AbortSignal | null;
}

/** An answer has more bytes than the caller was ready for. */
export class AnswerTooLargeError extends Error {
  override readonly name = 'AnswerTooLargeError';
}

/**
 * The apiserver as raw JSON: the caller gets each answer as it was sent, unknown fields included. Retries nothing,
 * because the caller knows the meaning of a failure. Kubernetes' own typed clients drop fields that they do not know.
 */
export class ApiClient {
  readonly #credentials: Credentials;
  readonly #metrics: Metrics;
  readonly #flowControl: FlowControl | undefined;
  readonly #flow: ApiFlow | undefined;
  /** The client that `for` has made it from; itself, if none: facts about the cluster are remembered by it. */
  readonly root: ApiClient;
  #host: string | undefined;

  /**
   * @param flowControl delays each request. Default: no delay.
   * @param flow see `for`. Default: the gateway's own.
   * @param root Default: this client.
   */
  constructor(
    credentials: Credentials,
    metrics: Metrics = silentMetrics,
    flowControl?: FlowControl,
    flow?: ApiFlow,
    root?: ApiClient,
  ) {
    this.root = root ?? this;
    this.#credentials = credentials;
    this.#metrics = metrics;
    this.#flowControl = flowControl;
    this.#flow = flow;
  }

  /**
   * A client for one controller: its requests count against the controller's own limit too, and under its name.
   * Requests that several controllers share (an informer's lists and watches) stay the gateway's own.
   */
  for(controller: string, options: Pick<ApiFlow, 'isUrgent'> = {}): ApiClient {
    const flow = { controller, ...options };
    return new ApiClient(this.#credentials, this.#metrics, this.#flowControl, flow, this.root);
  }

  get #controller(): string | undefined {
    return this.#flow?.controller;
  }

  get server(): string {
    return this.#credentials.server;
  }

  /**
   * @throws ApiError for an answer other than 2xx; AnswerTooLargeError; the transport's own error when there was no
   *   answer.
   */
  async json<T>(options: ApiRequest): Promise<T> {
    return (await this.measuredJson(options)).value as T;
  }

  /** `json`, how many bytes it had, and how many it takes in memory: see `weightOf`. */
  async measuredJson(options: ApiRequest): Promise<{ value: unknown; bytes: number; weight: number }> {
    const body = await this.#measured(options.method, async () => {
      await this.#waitForFlowControl(options);
      const end = this.#flow?.isUrgent ? undefined : await this.#flowControl?.begin(this.#controller, options.signal);
      return this.#send(options)
        .then((answer) => read(answer, options.maxBytes))
        .finally(() => end?.());
    });
    const bytes = body.length;
    this.#metrics.observe('rest_client_response_size_bytes', this.#labels(options.method), bytes);
    const parse = (): { value: unknown; bytes: number; weight: number } => {
      let weight = 0;
      try {
        const value = parseJson(body.takeText((content) => (weight = weightOf(content))));
        return { value, bytes, weight };
      } catch {
        // The parser's own message shows a piece of the text, which may be a Secret's.
        throw new Error(`the apiserver's answer to ${options.method ?? 'GET'} ${options.path} is not JSON`);
      }
    };
    return bytes <= SMALL_BYTES ? parse() : this.#parseInTurn(parse);
  }

  /**
   * Parses one large answer of this process at a time, each followed by the rest of its slice. The caller gets the
   * value before the rest: what waited with it would keep it in memory, with those of all others that wait.
   */
  #parseInTurn<T>(parse: () => T): Promise<T> {
    const tenant = this.#controller === undefined ? '' : tenantOf(this.#controller);
    const { promise, resolve } = Promise.withResolvers<T>();
    void parses.run(tenant, async () => {
      const slice = new TimeSlice(tenant);
      resolve(new Promise((done) => done(parse())));
      if (slice.isOver) await slice.next();
    });
    return promise;
  }

  /** The body of a 2xx answer as it comes: a watch. The caller must read it to its end or destroy it. */
  async stream(options: ApiRequest): Promise<Readable> {
    await this.#waitForFlowControl(options);
    return this.#send(options);
  }

  /** Resolves when the next request may be sent: see `forward`. @throws the signal's reason */
  async turn(method: ForwardedRequest['method'], signal: AbortSignal): Promise<void> {
    await this.#waitForFlowControl({ method, path: '', signal });
  }

  /**
   * Passes on a request of another client as another user, and gives the answer as it is, whatever its status. Does not
   * wait for flow control: `turn` does. The body must be read to its end or destroyed.
   */
  async forward({ method, url: path, headers: given, body, user, signal }: ForwardedRequest): Promise<ForwardedAnswer> {
    const { server, dispatcher, headers } = await this.#credentials.access();
    // A kubeconfig may impersonate, too, and its groups would be those of the other user.
    const own = Object.entries(headers).filter(([name]) => !name.toLowerCase().startsWith('impersonate-'));
    const options = {
      dispatcher,
      method,
      headers: { ...Object.fromEntries(own), ...given, 'impersonate-user': user },
      body: body ?? null,
      // A DELETE has its options in its body.
      reset: false,
      signal,
    };
    // Measured until the answer begins: the time after that depends on how fast the client reads.
    const response = await this.#measured(method, () => this.#request(server + path, options));
    if (response.statusCode === 401) this.#credentials.refresh();
    // The caller may destroy it before anything listens, and an error without a listener would end the process.
    response.body.on('error', () => {});
    return { status: response.statusCode, headers: response.headers, body: response.body };
  }

  async #send(options: ApiRequest): Promise<Readable> {
    const { server, dispatcher, headers } = await this.#credentials.access();
    const { contentType = 'application/json' } = options;
    const response = await this.#request(url(server, options), {
      dispatcher,
      method: options.method ?? 'GET',
      headers: {
        ...headers,
        accept: options.accept ?? 'application/json',
        'user-agent': 'levelhook-gateway',
        ...(options.body === undefined ? {} : { 'content-type': contentType }),
      },
      body: options.body === undefined ? null : formatBody(options.body, contentType),
      signal: options.signal ?? null,
    });
    if (response.statusCode >= 200 && response.statusCode < 300) return response.body;
    if (response.statusCode === 401) this.#credentials.refresh();
    throw new ApiError(
      statusFrom((await read(response.body)).takeText(), response.statusCode),
      parseRetryAfter(first(response.headers['retry-after']), Date.now()),
    );
  }

  /** Sends a request and counts it as client-go does (rest/request.go). */
  async #request(to: string, options: RequestOptions): Promise<Dispatcher.ResponseData> {
    const { body, method } = options;
    const labels = this.#labels(method);
    const count = (code: string): void => {
      this.#metrics.count('rest_client_requests_total', { code, method, host: labels.host });
    };
    if (body !== null) {
      this.#metrics.observe('rest_client_request_size_bytes', labels, Buffer.byteLength(body));
    }
    try {
      const response = await request(to, options);
      count(String(response.statusCode));
      return response;
    } catch (error) {
      count('<error>');
      throw error;
    }
  }

  /** Measures how long a request takes, its waits included, as client-go does. */
  async #measured<T>(method: ApiRequest['method'], work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      const seconds = (performance.now() - startedAt) / 1000;
      this.#metrics.observe('rest_client_request_duration_seconds', this.#labels(method), seconds);
    }
  }

  #labels(method: ApiRequest['method'] = 'GET'): { readonly verb: string; readonly host: string } {
    this.#host ??= new URL(this.server).host;
    return { verb: method, host: this.#host };
  }

  /** Once for each request, a watch being one, however long it lasts. */
  async #waitForFlowControl({ method = 'GET', signal }: ApiRequest): Promise<void> {
    const waitedMs = await this.#flowControl?.wait(this.#controller, signal, this.#flow?.isUrgent);
    this.#metrics.count('levelhook_apiserver_requests_total', { controller: this.#controller ?? '', method });
    if (waitedMs === undefined) return;
    this.#metrics.observe('rest_client_rate_limiter_duration_seconds', this.#labels(method), waitedMs / 1000);
  }
}

function url(server: string, { path, query = {} }: ApiRequest): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  return parameters.size > 0 ? `${server}${path}?${parameters.toString()}` : `${server}${path}`;
}

async function read(body: Readable, maxBytes = Infinity): Promise<BodyBuffer> {
  const buffer = new BodyBuffer();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    buffer.add(chunk);
    // To leave the loop closes the connection.
    if (buffer.length > maxBytes)
      throw new AnswerTooLargeError(`the apiserver's answer has more than ${maxBytes} bytes`);
  }
  return buffer;
}

function first(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
