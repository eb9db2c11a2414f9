import {
  ApiError,
  formatBody,
  formatKind,
  type GroupVersionKind,
  isConnectionRefused,
  isUncertain,
  messageOf,
  parseJson,
  parseRetryAfter,
  statusFrom,
  systemClock,
} from '../core/index.ts';
import type { ApiTransport, ApiTransportRequest } from './api-transport.ts';
import type { WriteVerb } from '../contract/index.ts';
import { DeadlineError } from './errors.ts';
import type { WrittenSource } from './source.ts';

/** A write that may have taken effect. */
export interface UnansweredWrite {
  readonly apiVersion: string;
  readonly kind: string;
  /** The error, for the log. */
  readonly message: string;
}

/**
 * The run that makes the requests. `now` is the clock of `deadlineMs`; by default `systemClock.now`, which nothing
 * sets.
 */
export interface ApiRun {
  /** Read only when something is sent, because the getter may create the signal. */
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly now?: () => number;
}

/** What a run may write. Other writes are refused before they are sent. */
export interface WriteBounds {
  /** The only namespace. Default: it writes anywhere. */
  readonly namespace?: string | undefined;
  /** Default: all kinds, with all verbs. */
  readonly writes?: readonly WrittenSource[] | undefined;
}

export interface WriteRequest {
  readonly method: ApiTransportRequest['method'];
  /** Path and query, without `timeout`. */
  readonly path: string;
  readonly body?: object;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Media types of the answer. Default `application/json`. */
  readonly accept?: string;
  /** Whether the write may have taken effect despite this error. Default: as for a write of one object. */
  readonly mayBeDone?: (error: ApiError) => boolean;
  /** Whether to wait and send again after a 429 or 503 with a time. Default: always. */
  readonly mayRepeat?: (error: ApiError) => boolean;
}

/**
 * The requests of one run. It sends none after the run's deadline or end, and records writes that may have taken effect
 * without an answer.
 */
export class ApiRequests {
  readonly #transport: ApiTransport;
  readonly #run: ApiRun;
  readonly #bounds: WriteBounds;
  readonly #now: () => number;
  readonly #unanswered: UnansweredWrite[] = [];
  /** Writes that are under way. */
  readonly #open = new Set<UnansweredWrite>();
  readonly #awaited = new Set<Promise<unknown>>();
  #ended = false;
  /** Created when something waits for the end. */
  #end: AbortController | undefined;

  constructor(transport: ApiTransport, run: ApiRun, bounds: WriteBounds = {}) {
    this.#transport = transport;
    this.#run = run;
    this.#bounds = bounds;
    this.#now = run.now ?? (() => systemClock.now());
  }

  get unanswered(): readonly UnansweredWrite[] {
    return this.#unanswered;
  }

  /** Makes the end of the run wait for this work. */
  waitUntil(work: Promise<unknown>): void {
    this.#awaited.add(work);
  }

  /** Waits for the work of `waitUntil`, at most `limitMs`, and ends. */
  async finish(limitMs: number): Promise<void> {
    // Most runs wait for nothing, and timers and signals are a good part of the cost of such a run.
    if (this.#awaited.size > 0) {
      const over = new AbortController();
      const limit = systemClock.sleep(limitMs, AbortSignal.any([this.#signal(), over.signal]));
      await Promise.race([Promise.allSettled(this.#awaited), limit]);
      over.abort();
    }
    this.end();
  }

  /**
   * Sends nothing from now on; writes that are under way have an unknown outcome. They are not aborted: a reconciler
   * that does not await a write would not catch its error either, and that would end the process with all its other
   * runs.
   */
  end(): void {
    this.#unanswered.push(...this.#open);
    this.#open.clear();
    this.#ended = true;
    this.#end?.abort(new DeadlineError(OVER));
  }

  /** Aborted with the run's signal, and at the end. */
  #signal(): AbortSignal {
    this.#end ??= new AbortController();
    return AbortSignal.any([this.#run.signal, this.#end.signal]);
  }

  /**
   * Sends until the apiserver accepts the request: a 429 with a time was not executed, nor a 503 of an apiserver or a
   * gateway that is not ready. client-go waits and repeats these, too.
   */
  async send(kind: GroupVersionKind, request: WriteRequest): Promise<unknown> {
    const { method, path } = request;
    if (method !== 'GET') this.#check(kind, method, path);
    for (;;) {
      const remainingMs = this.#run.deadlineMs - this.#now();
      if (this.#ended || remainingMs <= 0 || this.#run.signal.aborted) throw new DeadlineError(OVER);
      const answer = await this.#once(kind, request, remainingMs);
      if (!(answer instanceof ApiError)) return answer;
      const { code, retryAfterMs } = answer;
      const { mayBeDone = isUncertain } = request;
      const notDone = code === 429 || (code === 503 && !mayBeDone(answer));
      const waits = notDone && retryAfterMs !== undefined && retryAfterMs < remainingMs;
      if (!waits || request.mayRepeat?.(answer) === false) throw answer;
      await systemClock.sleep(Math.max(retryAfterMs, MIN_RETRY_MS), this.#signal());
    }
  }

  #check(of: GroupVersionKind, method: keyof typeof VERBS, path: string): void {
    const { namespace: only, writes } = this.#bounds;
    const [, namespace, plural = '', name, subresource] = TARGET.exec(path) ?? [];
    if (only !== undefined && namespace !== only) {
      throw new TypeError(
        `${method} ${path} is not sent: a run of this controller writes to the namespace of its key alone, ${only}. A controller with writesAcrossNamespaces: true may write elsewhere`,
      );
    }
    const verb: WriteVerb = name === undefined && method === 'DELETE' ? 'deletecollection' : VERBS[method];
    const isDeclared = writes?.some(
      (each) =>
        formatKind(each.resource) === formatKind(of) &&
        each.subresource === subresource &&
        each.verbs.includes(verb) &&
        (each.namespaces?.includes(namespace ?? '') ?? true),
    );
    if (isDeclared !== false) return;
    const part = subresource === undefined ? '' : ` subresource: '${subresource}',`;
    throw new TypeError(
      `${method} ${path} is not sent: the writes of this controller have no ${verb} of ${plural}${subresource === undefined ? '' : `/${subresource}`}. Add { resource: ${of.kind},${part} verbs: ['${verb}'] } to them`,
    );
  }

  async #once(
    { apiVersion, kind }: GroupVersionKind,
    { method, path, body, contentType = 'application/json', accept, mayBeDone = isUncertain }: WriteRequest,
    remainingMs: number,
  ): Promise<unknown> {
    const isWrite = method !== 'GET';
    const what = `${method} ${path} may have taken effect`;
    const open: UnansweredWrite = { apiVersion, kind, message: `${what}: the run ended before the answer came` };
    if (isWrite) this.#open.add(open);
    const doubt = (error: unknown): void => {
      // Not after the end, which has recorded it already.
      if (this.#open.has(open)) this.#unanswered.push({ apiVersion, kind, message: `${what}: ${messageOf(error)}` });
    };
    try {
      const answer = await this.#transport({
        method,
        path: isWrite ? withTimeout(path, remainingMs) : path,
        signal: this.#run.signal,
        ...(body === undefined ? {} : { body: formatBody(body, contentType), contentType }),
        ...(accept === undefined ? {} : { accept }),
      });
      if (answer.status >= 200 && answer.status < 300) return parse(answer.body);
      const retryAfterMs = parseRetryAfter(answer.retryAfter, systemClock.wallNow());
      const error = new ApiError(statusFrom(answer.body, answer.status), retryAfterMs);
      if (mayBeDone(error)) doubt(error);
      return error;
    } catch (error) {
      if (!isConnectionRefused(error)) doubt(error);
      throw error;
    } finally {
      this.#open.delete(open);
    }
  }
}

/**
 * Namespace, plural, name and subresource of the path of an object, or of all objects of a kind. A Namespace's own
 * parts are in no namespace.
 */
const TARGET =
  /^\/api(?:s\/[^/]+)?\/[^/]+\/(?:namespaces\/([^/?]+)\/(?!(?:status|finalize)(?:\?|$)))?([^/?]+)(?:\/([^/?]+)(?:\/([^/?]+))?)?/;

const VERBS = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' } as const;

const OVER = 'the run is over: nothing more may be sent';

/** The least wait, so that `Retry-After: 0` causes no busy loop. */
const MIN_RETRY_MS = 100;

function parse(body: string): unknown {
  try {
    return parseJson(body);
  } catch {
    // The parser's own message shows a piece of the text, which may be a Secret's.
    throw new Error('the answer is not JSON');
  }
}

/** Tells the apiserver to give up at the deadline, because a write must not go on after it. */
function withTimeout(path: string, remainingMs: number): string {
  return `${path}${path.includes('?') ? '&' : '?'}timeout=${Math.ceil(remainingMs)}ms`;
}
