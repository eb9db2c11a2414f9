import { constants, KeyObject } from 'node:crypto';
import { type buildConnector, type Client, type Dispatcher, Pool } from 'undici';
import {
  BodyBuffer,
  boundedText,
  type Clock,
  isConnectionRefused,
  messageOf,
  systemClock,
} from '../../../core/index.ts';
import {
  AddressRefusedError,
  checkEndpoint,
  type EndpointRules,
  guardedLookup,
  rulesForConfigured,
} from './endpoint-rules.ts';
import { CountedClient, type CountedHandler, type Framing, FramingError } from './counted-client.ts';
import { LEVELHOOK_HEADER, RESULT_STREAM, type SigningKey } from '../../../contract/index.ts';
import { signSync } from '../../../contract/node/signature.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import { connectInTurn } from './handshakes.ts';
import type { Hold } from './held-bytes.ts';

/** The result of one signed request. */
export type Answer =
  | {
      readonly kind: 'answered';
      readonly status: number;
      readonly headers: Record<string, string>;
      /** Empty when the body was a stream of results: `onLine` got its lines. */
      readonly body: string;
      readonly isStream: boolean;
    }
  /** No connection was made, so the request was not sent. `reason` is `refused` when the other side said so. */
  | { readonly kind: 'refused'; readonly reason: 'refused' | 'connection' | 'timeout'; readonly message: string }
  /** It may have been delivered, in whole or in part. */
  | { readonly kind: 'failed'; readonly reason: FailureReason; readonly message: string };

/** The last answer of a function to any request, or its absence. */
export interface LastAnswer {
  /** By the wall clock. */
  readonly wallMs: number;
  /** `200`, or the fault. */
  readonly text: string;
  readonly isFailure: boolean;
  /** The contract that its header names; undefined when it has none, so that another server gave it. */
  readonly contract: string | undefined;
}

export type FailureReason = 'timeout' | 'connection' | 'too-large';

export interface EndpointOptions {
  /** At most this many requests at a time: the controller's concurrency. */
  readonly connections: number;
  /** Certificate authorities in PEM form, instead of Node's own. */
  readonly ca?: string | undefined;
  /** Default: the rules for a URL that the operator has configured. */
  readonly rules?: EndpointRules;
  /** Dates the signatures. Default: the system's. */
  readonly clock?: Pick<Clock, 'wallNow'>;
}

/** An answer is small; more than this is a fault of the function and is not read to its end. */
const MAX_ANSWER_BYTES = 1024 * 1024;
/** The same for a stream of results. Each of its lines has the limit of an answer. */
const MAX_STREAM_BYTES = 16 * MAX_ANSWER_BYTES;
const SCATTERED = 'the answer comes in more than 256 chunks of less than 256 bytes';
/** The limit of an answer other than 200 and 202. The reason in a refusal by the SDK is shorter. */
const MAX_REFUSAL_BYTES = 16 * 1024;
/** Answers of a status below 200, such as 103, come before the answer. undici reads any number of them. */
const MAX_INFORMATIONAL = 8;
const INFORMATIONAL = `the answer comes after more than ${MAX_INFORMATIONAL} informational answers`;
/** Every line costs the gateway time, even if it names no run. A trigger has at most 100 runs. */
const MAX_STREAM_LINES = 1000;
/** The time of the parser for one chunk, one KiB or one header. */
const READ_MS = 0.001;
/** The first part of the time of an answer is free: the gateway itself spends more on a trigger. */
const FREE_READ_MS = 0.05;
/** The time to sign one KiB with one key. The bodies of triggers are smaller than the free part. */
const SIGN_MS = 0.004;
const FREE_SIGNED_KIB = 64;
/** Time is charged in parts of this length, because a charge takes as long as some chunks. */
const CHARGED_MS = 1;

/**
 * The gateway closes an idle connection before the function does. If the function closed it while a trigger is on its
 * way, the trigger would end as ECONNRESET, an unknown outcome, and its key would wait for the deadline. undici uses
 * the server's `Keep-Alive: timeout=N` less `keepAliveTimeoutThreshold`, at most `keepAliveMaxTimeout`. If the server
 * names no time, as Go's and most servers, it uses `keepAliveTimeout`. The shortest time of such a server is 2 s, which
 * leaves one second for the network in both directions. The contract's README has these numbers.
 */
const KEEP_ALIVE = { keepAliveTimeout: 1000, keepAliveMaxTimeout: 30_000, keepAliveTimeoutThreshold: 2000 };

/** Names a request in logs and traces. */
export interface RequestNames {
  readonly id: string;
  /** The header of this name. Default: none. */
  readonly traceparent?: string | undefined;
}

/** One signed request. */
export interface EndpointRequest extends RequestNames {
  /** Of a POST. Empty: the request is a GET. */
  readonly body: string;
  readonly timeoutMs: number;
  /**
   * Called with each line of a stream of results as it arrives. The next line follows, and more is read, after the
   * returned promise has resolved; the answer ends after the last line. Without it, the request asks for a whole
   * answer.
   */
  readonly onLine?: ((line: string) => Promise<void> | undefined) | undefined;
  /** A larger answer that is no stream is not read to its end. Default 1 MiB. */
  readonly maxAnswerBytes?: number;
  /**
   * Counts the bytes of the answer that were read and not yet given to `onLine`. The caller releases it. Default: they
   * are not counted.
   */
  readonly hold?: Hold | undefined;
  /** Charges processor time for signing a large body and for reading the answer. Default: it is not charged. */
  readonly charge?: ((ms: number) => unknown) | undefined;
}

/**
 * Sends signed requests to a function's address over connections that stay open. It uses handlers of undici's Pool,
 * measured 2.2 to 2.8 times as fast as fetch and twice as fast as `request` of undici.
 */
export class Endpoint {
  readonly url: string;
  readonly #pool: Pool;
  /** Makes a pool of one connection, for `postBelow`. */
  readonly #connect: () => Pool;
  readonly #path: string;
  /** The URL's path without a trailing slash. `postBelow` appends its own path and `#search`. */
  readonly #below: string;
  readonly #search: string;
  readonly #keys: readonly KeyObject[];
  readonly #clock: Pick<Clock, 'wallNow'>;
  #last: LastAnswer | undefined;

  /**
   * @param keys sign the requests; see `importExtractableSecret`.
   * @throws UserError when the rules do not allow the URL.
   */
  constructor(url: string, keys: readonly SigningKey[], options: EndpointOptions) {
    const { connections, ca, rules = rulesForConfigured(url), clock = systemClock } = options;
    const { origin, pathname, search } = checkEndpoint(url, rules);
    this.url = url;
    // With renegotiation a server could ask for one handshake after the other on an open connection.
    const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
    // A chain ends at the first certificate of `ca`, root or not, as in Go and for the apiserver's webhooks. Otherwise
    // it would go on through the whole of `ca`, whatever that costs.
    const trust = { allowPartialTrustChain: true, ...(ca === undefined ? {} : { ca }) };
    const tls = { lookup: guardedLookup(rules), secureOptions, ...trust };
    const { handshakes, tenant } = rules;
    const connect = handshakes ? connectInTurn(tls, { tenant, budget: handshakes }) : tls;
    // Over HTTP/2 all triggers would share one connection, and a broken connection would leave all outcomes unknown.
    const common = { pipelining: 1, allowH2: false, connect, factory: countedClient };
    this.#pool = new Pool(origin, { connections, ...common, ...KEEP_ALIVE });
    this.#connect = () => new Pool(origin, { connections: 1, ...common });
    this.#path = pathname + search;
    this.#below = pathname.replace(/[/]+$/, '');
    this.#search = search;
    this.#keys = keys.map((key) => KeyObject.from(key));
    this.#clock = clock;
  }

  /** The last answer; undefined before the first. */
  get lastAnswer(): LastAnswer | undefined {
    return this.#last;
  }

  /**
   * Sends one signed request and never rejects. The request is sent once, because functions refuse an id that comes
   * again. A broken connection fails one request only, because requests are not pipelined. Redirects are not followed:
   * they are answers like any other.
   */
  async send(request: EndpointRequest): Promise<Answer> {
    const answer = await this.#sendBy(this.#pool, this.#path, request);
    const isAnswered = answer.kind === 'answered';
    const text = isAnswered ? `HTTP ${answer.status}` : answer.message;
    const isFailure = !isAnswered || answer.status >= 400;
    const contract = isAnswered ? answer.headers[LEVELHOOK_HEADER] : undefined;
    this.#last = { wallMs: this.#clock.wallNow(), text, isFailure, contract };
    return answer;
  }

  /**
   * Sends one signed POST to a path below the function's, over a connection of its own: however long it takes, no
   * trigger waits for it. It does not count as an answer of the function (`lastAnswer`), and no redirect is followed.
   * It never rejects.
   */
  async postBelow(path: string, { signal, ...request }: BelowRequest): Promise<Answer> {
    const pool = this.#connect();
    const end = (): void => void pool.destroy(new Error('the request was given up'));
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      return await this.#sendBy(pool, this.#below + path + this.#search, request);
    } finally {
      signal.removeEventListener('abort', end);
      await pool.destroy();
    }
  }

  async #sendBy(pool: Pool, path: string, request: EndpointRequest): Promise<Answer> {
    const { id, body, onLine, traceparent } = request;
    const method = body === '' ? 'GET' : 'POST';
    const accept = onLine ? `${RESULT_STREAM}, application/json` : 'application/json';
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const signature = signSync(this.#keys, { id, nowMs: this.#clock.wallNow(), body });
        const signedKib = Math.max(0, body.length / 1024 - FREE_SIGNED_KIB) * this.#keys.length;
        if (signedKib > 0) request.charge?.(signedKib * SIGN_MS);
        const headers = {
          ...signature,
          accept,
          ...(body ? { 'content-type': 'application/json' } : {}),
          ...(traceparent === undefined ? {} : { traceparent }),
        };
        const options = { method, path, headers, body: body || null, headersTimeout: 0, bodyTimeout: 0 };
        const notConnected = (error: unknown): void => resolve(withoutConnection(error, this.url));
        pool.dispatch(options, new AnswerHandler(request, { resolve, reject, notConnected }));
      });
    } catch (error) {
      return { kind: 'failed', reason: 'connection', message: boundedText(messageOf(error), MOST_MESSAGE) };
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** An error of TLS quotes all names of a certificate. */
const MOST_MESSAGE = 1024;

/** One signed POST below the function's path. */
export interface BelowRequest extends Pick<EndpointRequest, 'id' | 'body' | 'timeoutMs' | 'maxAnswerBytes'> {
  /** Aborts the request. */
  readonly signal: AbortSignal;
}

/** No name was found, no connection made or no certificate trusted: nothing of the request was written. */
function withoutConnection(error: unknown, url: string): Answer {
  if (error instanceof AddressRefusedError) return { kind: 'refused', reason: 'refused', message: error.message };
  if (!isConnectionRefused(error))
    return { kind: 'refused', reason: 'connection', message: boundedText(messageOf(error), MOST_MESSAGE) };
  return { kind: 'refused', reason: 'refused', message: `connection refused by ${url}` };
}

/** @param options the pool's, in which `connect` is a function already. */
function countedClient(origin: URL, options: Client.Options & { readonly connect: buildConnector.connector }): Client {
  return new CountedClient(origin, options);
}

interface AnswerEnds {
  readonly resolve: (answer: Answer) => void;
  /** The request may have been sent. */
  readonly reject: (error: unknown) => void;
  readonly notConnected: (error: unknown) => void;
}

/** Reads one answer, or the lines of a stream of results, until the request's deadline. */
class AnswerHandler implements CountedHandler {
  framing: Framing | undefined;
  readonly #onLine: EndpointRequest['onLine'];
  readonly #maxBytes: number;
  readonly #hold: Hold | undefined;
  readonly #charge: EndpointRequest['charge'];
  readonly #ends: AnswerEnds;
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #informational = 0;
  /** The time that was not charged yet. */
  #dueMs = -FREE_READ_MS;
  #status = 0;
  #headers: Record<string, string> = {};
  #isStream = false;
  #size = 0;
  #lines = 0;
  /** Bytes of the line that is not complete yet. */
  #lineSize = 0;
  readonly #buffer = new BodyBuffer();
  /**
   * Complete lines that `onLine` has not got yet. If the connection ends, undici gives further chunks despite a pause.
   */
  readonly #waiting: string[] = [];
  #giving: Promise<void> | undefined;

  constructor(request: EndpointRequest, ends: AnswerEnds) {
    const { timeoutMs } = request;
    this.#onLine = request.onLine;
    this.#hold = request.hold;
    this.#maxBytes = request.maxAnswerBytes ?? MAX_ANSWER_BYTES;
    this.#charge = request.charge;
    this.#ends = ends;
    this.#timer = setTimeout(() => this.#fail('timeout', 'no answer before the deadline'), Math.max(1, timeoutMs));
  }

  /** undici calls this when it has a connection and is about to write the request, and not before. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.framing?.begin();
    // The request has waited for a connection until its deadline, so it must not be sent.
    if (this.#isOver) controller.abort(new Error('the time of the request is over'));
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Record<string, string>): void {
    this.#controller = controller;
    this.#addCost(fieldsIn(controller.rawHeaders));
    if (status < 200) {
      this.#informational += 1;
      if (this.#informational > MAX_INFORMATIONAL) this.#fail('too-large', INFORMATIONAL);
      return;
    }
    this.#status = status;
    this.#headers = headers;
    const isOurs = status === 200 && headers[LEVELHOOK_HEADER] !== undefined;
    this.#isStream = !!this.#onLine && isOurs && !!headers['content-type']?.startsWith(RESULT_STREAM);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.framing?.addBody(chunk.length);
    if (this.#isOver) return;
    this.#addCost(1 + chunk.length / 1024);
    this.#size += chunk.length;
    if (this.#size > MAX_REFUSAL_BYTES && this.#status !== 200 && this.#status !== 202) {
      this.#answer('');
      return controller.abort(new Error('the rest of the answer is not needed'));
    }
    const last = this.#isStream ? chunk.lastIndexOf(LINE_FEED) : -1;
    // Of a stream, the buffer takes the chunk up to the end of its last complete line.
    this.#buffer.add(last < 0 ? chunk : chunk.subarray(0, last + 1));
    if (this.#buffer.isScattered) return this.#fail('too-large', SCATTERED);
    if (this.#hold?.add(chunk.length) === false) {
      return this.#fail('too-large', 'the answers that wait to be read take more memory than they may together');
    }
    if (!this.#isStream) {
      if (this.#size > this.#maxBytes) {
        this.#fail('too-large', `the answer is larger than ${this.#maxBytes / (1024 * 1024)} MiB`);
      }
      return;
    }
    this.#lineSize = last < 0 ? this.#lineSize + chunk.length : chunk.length - last - 1;
    if (this.#size > MAX_STREAM_BYTES) this.#fail('too-large', 'the results are larger than 16 MiB');
    else if (this.#lineSize > MAX_ANSWER_BYTES) this.#fail('too-large', 'a result is larger than 1 MiB');
    else if (last >= 0) {
      // Without the last line feed, behind which there is no line yet.
      const text = this.#buffer.takeText().slice(0, -1);
      if (last + 1 < chunk.length) this.#buffer.add(chunk.subarray(last + 1));
      const lines = text.split('\n', MAX_STREAM_LINES + 1);
      this.#lines += lines.length;
      if (this.#lines > MAX_STREAM_LINES) return this.#fail('too-large', 'the results have more than 1000 lines');
      this.#waiting.push(...lines);
      this.#giving ??= this.#give(controller).catch((error: unknown) => this.#ends.reject(error));
    }
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    this.#addCost(fieldsIn(controller.rawTrailers));
    this.#answer(this.#isStream ? '' : this.#buffer.takeText());
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end();
    if (!this.#controller) this.#ends.notConnected(error);
    else if (error instanceof FramingError)
      this.#resolve({ kind: 'failed', reason: 'too-large', message: error.message });
    else void this.#settle(() => this.#ends.reject(error));
  }

  #answer(body: string): void {
    this.#end();
    this.#resolve({ kind: 'answered', status: this.#status, headers: this.#headers, body, isStream: this.#isStream });
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#chargeFrom(0);
  }

  /** @param parts chunks, KiB or headers. */
  #addCost(parts: number): void {
    this.#dueMs += parts * READ_MS;
    this.#chargeFrom(CHARGED_MS);
  }

  #chargeFrom(leastMs: number): void {
    if (this.#dueMs <= leastMs) return;
    this.#charge?.(this.#dueMs);
    this.#dueMs = 0;
  }

  /** Gives the complete lines to `onLine`, one after the other, and counts their bytes until then. */
  async #give(controller: Dispatcher.DispatchController): Promise<void> {
    controller.pause();
    const slice = new TimeSlice();
    for (let line = this.#waiting.shift(); line !== undefined; line = this.#waiting.shift()) {
      // It waits for an empty line as well, so that `#giving` is set before it is deleted.
      await (line === '' ? undefined : this.#onLine?.(line));
      if (slice.isOver) await slice.giveWay();
    }
    this.#giving = undefined;
    this.#hold?.release();
    if (this.#isOver) return;
    this.#hold?.add(this.#lineSize);
    controller.resume();
  }

  #resolve(answer: Answer): void {
    void this.#settle(() => this.#ends.resolve(answer));
  }

  /** Ends the request when `onLine` has got all lines that have arrived. */
  async #settle(end: () => void): Promise<void> {
    await this.#giving;
    end();
  }

  /** Stops reading the answer and closes its connection. */
  #fail(reason: FailureReason, message: string): void {
    this.#end();
    if (!this.#controller) {
      this.#ends.resolve({ kind: 'refused', reason: 'timeout', message: 'no connection before the deadline' });
      return;
    }
    this.#resolve({ kind: 'failed', reason, message });
    this.#controller.abort(new Error(message));
  }
}

/** @param raw the names and values of headers or trailers, one after the other. */
function fieldsIn(raw: Dispatcher.DispatchController['rawHeaders']): number {
  return Array.isArray(raw) ? raw.length / 2 : 0;
}

const LINE_FEED = 10;
