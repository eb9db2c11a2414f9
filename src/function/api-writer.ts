import {
  ApiError,
  isConnectionRefused,
  type KubernetesObject,
  messageOf,
  type ObjectKey,
  parseRetryAfter,
  type Resource,
  resourcePath,
  statusFrom,
  systemClock,
} from '../core/index.ts';
import type { Write } from '../contract/index.ts';
import { DeadlineError } from './errors.ts';

/** One request to the apiserver, credentials left to the transport. */
export interface ApiTransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  readonly contentType?: string;
  readonly body?: string;
  readonly signal: AbortSignal;
}

/** Sends requests to one apiserver with the function's own credentials. Rejects only when there was no answer. */
export type ApiTransport = (
  request: ApiTransportRequest,
) => Promise<{ readonly status: number; readonly body: string; readonly retryAfter?: string | null }>;

/** An object to be made: the apiserver fills in the rest. Either `name` or `generateName`. */
export type NewObject<T extends KubernetesObject> = Omit<T, 'metadata' | 'apiVersion' | 'kind' | 'status'> & {
  metadata: Partial<T['metadata']>;
};

export type Patch =
  | { readonly type: 'merge' | 'strategic'; readonly body: object }
  | { readonly type: 'json'; readonly body: readonly object[] };

export interface DeleteOptions {
  /** Refused with 409 when the object has another UID or version by now. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  readonly gracePeriodSeconds?: number;
}

/** A write that may have been done. */
export interface UnansweredWrite {
  readonly apiVersion: string;
  readonly kind: string;
  /** What happened, for the log. */
  readonly message: string;
}

/**
 * Writes to the apiserver within one run: raw JSON, so that fields which the author's types do not know survive. Each
 * acknowledged write is remembered for the outcome; the key's next run sees it in the cache. Nothing is sent after the
 * run's deadline, and the apiserver is told to give up at the deadline too (`?timeout=`).
 *
 * Every method throws ApiError for an answer other than 2xx, DeadlineError when the run is over.
 */
export class ApiWriter {
  readonly #transport: ApiTransport;
  readonly #signal: AbortSignal;
  readonly #deadlineMs: number;
  readonly #now: () => number;
  readonly #writes: Write[] = [];
  readonly #unanswered: UnansweredWrite[] = [];

  /** @param run `now` is the clock of `deadlineMs`. */
  constructor(transport: ApiTransport, run: { signal: AbortSignal; deadlineMs: number; now?: () => number }) {
    this.#transport = transport;
    this.#signal = run.signal;
    this.#deadlineMs = run.deadlineMs;
    this.#now = run.now ?? Date.now;
  }

  /** What was acknowledged so far. */
  get writes(): readonly Write[] {
    return this.#writes;
  }

  /**
   * Writes that may have been done though nobody acknowledged them, whatever became of the error that told the author: no
   * answer came, or one from which that cannot be told. With one of a kind that is cached, the outcome of the run is unknown.
   */
  get unanswered(): readonly UnansweredWrite[] {
    return this.#unanswered;
  }

  /** A live read, past the cache: for a decision that must not be made on old data. Undefined when it does not exist. */
  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    try {
      return (await this.#send(resource, 'GET', resourcePath(resource, key))) as T;
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return undefined;
      throw error;
    }
  }

  async create<T extends KubernetesObject>(resource: Resource<T>, object: NewObject<T>): Promise<T> {
    const { apiVersion, kind } = resource;
    const path = resourcePath(resource, { namespace: object.metadata.namespace });
    return this.#write(resource, 'POST', path, { apiVersion, kind, ...object });
  }

  /** PUT: the whole object as it was read, changed. Refused with 409 when it has changed since. */
  async replace<T extends KubernetesObject>(resource: Resource<T>, object: T, subresource?: 'status'): Promise<T> {
    const { namespace, name } = object.metadata;
    return this.#write(resource, 'PUT', resourcePath(resource, { namespace, name, subresource }), object);
  }

  async patch<T extends KubernetesObject>(
    resource: Resource<T>,
    key: ObjectKey,
    patch: Patch,
    subresource?: 'status' | 'scale',
  ): Promise<T> {
    const type = { merge: 'merge-patch', strategic: 'strategic-merge-patch', json: 'json-patch' }[patch.type];
    const path = resourcePath(resource, { ...key, subresource });
    return this.#write(resource, 'PATCH', path, patch.body, `application/${type}+json`);
  }

  /** Server-side apply: the fields in `object` become this manager's. */
  async apply<T extends KubernetesObject>(
    resource: Resource<T>,
    object: NewObject<T> & { metadata: { name: string } },
    options: { fieldManager: string; force?: boolean },
  ): Promise<T> {
    const { namespace, name } = object.metadata;
    const path = `${resourcePath(resource, { namespace, name })}?fieldManager=${encodeURIComponent(options.fieldManager)}&force=${options.force ?? false}`;
    const { apiVersion, kind } = resource;
    // YAML is the apiserver's name for it; JSON is YAML.
    return this.#write(resource, 'PATCH', path, { apiVersion, kind, ...object }, 'application/apply-patch+yaml');
  }

  async delete(resource: Resource, key: ObjectKey, options: DeleteOptions = {}): Promise<void> {
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', ...options };
    const answer = (await this.#send(resource, 'DELETE', resourcePath(resource, key), body)) as DeleteAnswer;
    const uid = answer.kind === 'Status' ? answer.details?.uid : answer.metadata?.uid;
    const { apiVersion, kind } = resource;
    // Part by part: an object's metadata is a key too, as far as the compiler can tell.
    const { namespace, name } = key;
    if (uid) this.#writes.push({ apiVersion, kind, ...(namespace ? { namespace } : {}), name, uid, deleted: true });
  }

  async #write<T extends KubernetesObject>(
    resource: Resource<T>,
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    body: object,
    contentType?: string,
  ): Promise<T> {
    const object = (await this.#send(resource, method, path, body, contentType)) as T;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const { apiVersion, kind } = resource;
    this.#writes.push({ apiVersion, kind, ...(namespace ? { namespace } : {}), name, uid, resourceVersion });
    return object;
  }

  /** Sends until the apiserver has taken it: a 429 with a time was not executed, and client-go waits and repeats it too. */
  async #send(
    resource: Resource,
    method: ApiTransportRequest['method'],
    path: string,
    body?: object,
    contentType?: string,
  ): Promise<unknown> {
    for (;;) {
      const remainingMs = this.#deadlineMs - this.#now();
      if (this.#signal.aborted || remainingMs <= 0)
        throw new DeadlineError('the run is over: nothing more may be sent');
      const sent = this.#transport({
        method,
        path: method === 'GET' ? path : withTimeout(path, remainingMs),
        signal: this.#signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body), contentType: contentType ?? 'application/json' }),
      });
      const { apiVersion, kind } = resource;
      const unanswered = (error: unknown): void => {
        const message = `${method} ${path} may have been done: ${messageOf(error)}`;
        if (method !== 'GET') this.#unanswered.push({ apiVersion, kind, message });
      };
      const answer = await sent.catch((error: unknown) => {
        if (!isConnectionRefused(error)) unanswered(error);
        throw error;
      });
      if (answer.status >= 200 && answer.status < 300) {
        try {
          return JSON.parse(answer.body);
        } catch {
          // The parser's own message shows a piece of the text, which may be a Secret's.
          const error = new Error('the answer is not JSON');
          unanswered(error);
          throw error;
        }
      }
      const retryAfterMs = parseRetryAfter(answer.retryAfter, Date.now());
      if (answer.status !== 429 || retryAfterMs === undefined || retryAfterMs >= remainingMs) {
        const error = new ApiError(statusFrom(answer.body, answer.status), retryAfterMs);
        if (mayBeDone(error)) unanswered(error);
        throw error;
      }
      await systemClock.sleep(Math.max(retryAfterMs, MIN_RETRY_MS), this.#signal);
    }
  }
}

/**
 * A 5xx does not say that a write was not done: the apiserver answers 504 at its `timeout` while etcd may still take it,
 * 500 for etcd's own timeouts, and a proxy in between 502 for an answer that it lost. These two were refused before etcd:
 * by an admission webhook that could not be called, and by an apiserver that is not ready.
 */
function mayBeDone({ code, reason, message }: ApiError): boolean {
  if (code < 500 || reason === 'ServiceUnavailable') return false;
  return !(reason === 'InternalError' && message.includes('failed calling webhook'));
}

/** `Retry-After: 0` is no invitation to spin. */
const MIN_RETRY_MS = 100;

/** A write must not go on after the deadline, so the apiserver is told to give it up then. */
function withTimeout(path: string, remainingMs: number): string {
  return `${path}${path.includes('?') ? '&' : '?'}timeout=${Math.ceil(remainingMs)}ms`;
}

/** The deleted object while it is being deleted, a Status once it is gone. */
interface DeleteAnswer {
  kind?: string;
  details?: { uid?: string };
  metadata?: { uid?: string };
}
