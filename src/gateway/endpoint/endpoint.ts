import { Pool } from 'undici';
import { type Clock, isConnectionRefused, messageOf, systemClock } from '../../core/index.ts';
import {
  AddressRefusedError,
  checkEndpoint,
  type EndpointRules,
  guardedLookup,
  rulesForConfigured,
} from './endpoint-rules.ts';
import { sign, type SigningKey } from '../../contract/index.ts';

/** What came back for one signed request. */
export type Answer =
  | {
      readonly kind: 'answered';
      readonly status: number;
      readonly headers: Record<string, string>;
      readonly body: string;
    }
  /** The connection was refused: the request was not delivered. */
  | { readonly kind: 'refused'; readonly message: string }
  /** It may have been delivered, in whole or in part. */
  | { readonly kind: 'failed'; readonly reason: FailureReason; readonly message: string };

export type FailureReason = 'timeout' | 'connection' | 'too-large';

export interface EndpointOptions {
  /** At most this many requests at a time: the controller's concurrency. */
  readonly connections: number;
  /** Certificate authorities in PEM form, instead of those that Node knows. */
  readonly ca?: string | undefined;
  /** Default: those for a URL that the operator has configured. */
  readonly rules?: EndpointRules;
  /** Dates the signatures. Default: the system's. */
  readonly clock?: Pick<Clock, 'wallNow'>;
}

/** An answer is small; more than this is a fault of the function and is not read to its end. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * The gateway closes an idle connection before the function does. If the function closed it while a trigger is being
 * written, the trigger would end as ECONNRESET, an unknown outcome, and its key would wait for the deadline. undici
 * uses the server's `Keep-Alive: timeout=N` less `keepAliveTimeoutThreshold`, at most `keepAliveMaxTimeout`, and
 * `keepAliveTimeout` if the server names none. Its timers do not count time in which this process is stopped, so the
 * limit is well below the 75 s of `serveFunction`.
 */
const KEEP_ALIVE = { keepAliveTimeout: 4000, keepAliveMaxTimeout: 30_000, keepAliveTimeoutThreshold: 2000 };

/**
 * A function's address, the keys that sign what is sent there, and the connections kept open to it. On undici's Pool:
 * measured 2.2 to 2.8 times as fast as fetch.
 */
export class Endpoint {
  readonly url: string;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #keys: readonly SigningKey[];
  readonly #clock: Pick<Clock, 'wallNow'>;

  /** @throws UserError when the rules do not allow the URL. */
  constructor(url: string, keys: readonly SigningKey[], options: EndpointOptions) {
    const { connections, ca, rules = rulesForConfigured(url), clock = systemClock } = options;
    const { origin, pathname, search } = checkEndpoint(url, rules);
    this.url = url;
    // Over HTTP/2 all triggers would share one connection, and what cuts one would leave the outcomes of all unknown.
    const connect = { lookup: guardedLookup(rules), ...(ca === undefined ? {} : { ca }) };
    this.#pool = new Pool(origin, { connections, pipelining: 1, allowH2: false, connect, ...KEEP_ALIVE });
    this.#path = pathname + search;
    this.#keys = keys;
    this.#clock = clock;
  }

  /**
   * Sends one signed request, once, and never rejects: undici fails the request that a broken connection was busy with,
   * and without pipelining there is no other on it. Functions refuse an id that comes again. Redirects are not
   * followed: they are answers like any other.
   */
  async send(request: { method: 'GET' | 'POST'; body: string; id: string; timeoutMs: number }): Promise<Answer> {
    const { method, body, id, timeoutMs } = request;
    try {
      const headers = await sign(this.#keys, { id, nowMs: this.#clock.wallNow(), body });
      const response = await this.#pool.request({
        method,
        path: this.#path,
        headers: { ...headers, accept: 'application/json', ...(body ? { 'content-type': 'application/json' } : {}) },
        body: body || null,
        signal: AbortSignal.timeout(Math.max(1, timeoutMs)),
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of response.body as AsyncIterable<Buffer>) {
        size += chunk.length;
        // Leaving the loop destroys the body, and with it the connection.
        if (size > MAX_ANSWER_BYTES)
          return { kind: 'failed', reason: 'too-large', message: 'the answer is larger than 1 MiB' };
        chunks.push(chunk);
      }
      return {
        kind: 'answered',
        status: response.statusCode,
        headers: response.headers as Record<string, string>,
        body: Buffer.concat(chunks).toString('utf8'),
      };
    } catch (error) {
      // As certain as a refused connection: none was opened.
      if (error instanceof AddressRefusedError) return { kind: 'refused', message: error.message };
      if (isConnectionRefused(error)) return { kind: 'refused', message: `connection refused by ${this.url}` };
      const timedOut = error instanceof Error && error.name === 'TimeoutError';
      if (timedOut) return { kind: 'failed', reason: 'timeout', message: 'no answer before the deadline' };
      return { kind: 'failed', reason: 'connection', message: messageOf(error) };
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
