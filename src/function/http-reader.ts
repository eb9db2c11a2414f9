import {
  ApiError,
  formatKind,
  isNamespace,
  type KubernetesObject,
  type ObjectKey,
  orUndefined,
  parseFieldSelector,
  parseJson,
  parseRetryAfter,
  requirementsOf,
  type Resource,
  resourcePath,
  SelectorError,
  statusFrom,
  systemClock,
} from '../core/index.ts';
import { type CacheLocation, encodeSelection } from '../contract/index.ts';
import { POSITION_HEADER, UNCHANGED, UNCHANGED_HEADER, UNCHANGED_ITEM } from '../contract/cache-query.ts';
import { observedItem } from '../contract/observed.ts';
import { namespaceOfSelection } from '../contract/selection.ts';
import { isSecureUrl } from '../contract/secure-url.ts';
import {
  type CacheReader,
  type KeptOut,
  type ListOptions,
  type ListResult,
  type OpenCache,
  SYNC_WAIT_MS,
} from './cache-reader.ts';
import { canExist, isEncryptedKind, joinedLists, namespacesOf, viewName } from './cache-views.ts';

export interface HttpReaderOptions {
  /** How long a read waits while the cache is being filled for the first time, or the gateway is busy. Default 5000. */
  readonly syncWaitMs?: number;
  /** Ends requests and waiting. Default: never. */
  readonly signal?: AbortSignal;
  /** Default: the platform's; in an app that `serveFunction` or `serveController` serves, `undiciFetch`. */
  readonly fetch?: CacheFetch;
  /** The highest position that a read of the run has seen, by `viewName`. Default: kept for this reader alone. */
  readonly positions?: Map<string, number>;
}

/**
 * The part of `fetch` that a reader needs. It must not follow redirects, because the token would go to another server.
 */
export type CacheFetch = (
  url: string,
  init: { readonly headers: Record<string, string>; readonly redirect: 'manual'; readonly signal: AbortSignal },
) => Promise<{
  readonly ok: boolean;
  readonly status: number;
  /** @param name in lower case. */
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

/**
 * Reads the cache through the gateway's cache API with the token of the trigger, wherever a function runs. The default
 * cache of `createFunctionApp`.
 */
export function httpCache(options: Omit<HttpReaderOptions, 'signal' | 'positions'> = {}): OpenCache {
  return (location, run) =>
    new HttpReader(location, {
      ...options,
      get signal() {
        return run.signal;
      },
    });
}

/** Objects in one answer. */
const PAGE = 500;
/** A list that cannot be continued begins anew at most this many times. */
const RESTARTS = 3;

/** The `CacheReader` over the cache API. It sends one request for an object, and one for each 500 objects of a list. */
export class HttpReader implements CacheReader {
  readonly #location: CacheLocation;
  readonly #options: HttpReaderOptions;
  readonly #positions: Map<string, number>;

  constructor(location: CacheLocation, options: HttpReaderOptions = {}) {
    this.#location = location;
    this.#options = options;
    this.#positions = options.positions ?? new Map<string, number>();
  }

  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    const namespaces = namespacesOf(this.#location, resource, key.namespace);
    if (namespaces.length === 0 || !canExist(resource, key)) return undefined;
    return orUndefined(this.#ask(resource, namespaces[0], resourcePath(resource, key)) as Promise<T>);
  }

  async secondsUnchanged(
    resource: Resource,
    key: ObjectKey,
    field: string,
    item?: object,
  ): Promise<number | undefined> {
    const namespaces = namespacesOf(this.#location, resource, key.namespace);
    if (namespaces.length === 0 || !canExist(resource, key)) return undefined;
    const identity = item && observedItem(field, item);
    if (item && identity === undefined) return undefined;
    const query = new URLSearchParams({ [UNCHANGED]: field, ...(identity ? { [UNCHANGED_ITEM]: identity } : {}) });
    let seconds: string | null = null;
    const path = `${resourcePath(resource, key)}?${query.toString()}`;
    const found = this.#ask(resource, namespaces[0], path, (headers) => {
      seconds = headers.get(UNCHANGED_HEADER);
    });
    if ((await orUndefined(found)) === undefined || seconds === null) return undefined;
    return Number(seconds);
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    const { labelSelector, fieldSelector, ...rest } = options;
    const namespace = namespaceOfSelection(options);
    // Parsed here too, so that an invalid selector never leaves the function.
    const labels = requirementsOf(labelSelector ?? '');
    const fields = parseFieldSelector(fieldSelector ?? '');
    const query = encodeSelection({ ...rest, labels, fields });
    const namespaces = namespacesOf(this.#location, resource, namespace);
    // Two conditions on the namespace contradict each other, or no namespace fulfils the condition.
    const nowhere = options.orphansIn !== undefined && options.orphansIn !== namespace;
    if (nowhere || (namespace !== undefined && !isNamespace(namespace))) return { items: [], version: '0' };
    const lists = await Promise.all(
      namespaces.map((each) => this.#list<T>(resource, { view: each, namespace: namespace ?? each }, query, RESTARTS)),
    );
    return joinedLists(lists);
  }

  async #list<T extends KubernetesObject>(
    resource: Resource,
    of: { readonly view: string | undefined; readonly namespace: string | undefined },
    query: URLSearchParams,
    restarts: number,
  ): Promise<ListResult<T>> {
    const path = resourcePath(resource, { namespace: of.namespace });
    const items: T[] = [];
    const keptOut: KeptOut[] = [];
    let version: string | undefined;
    let next: string | undefined;
    do {
      const page = new URLSearchParams(query);
      page.set('limit', String(PAGE));
      if (next !== undefined) page.set('continue', next);
      let list: ListBody<T>;
      try {
        list = (await this.#ask(resource, of.view, `${path}?${page.toString()}`)) as ListBody<T>;
      } catch (error) {
        // The cache was refilled between the pages, so the pages read so far no longer count.
        const expired = error instanceof ApiError && error.code === 410 && next !== undefined;
        if (!expired || restarts === 0) throw error;
        return this.#list(resource, of, query, restarts - 1);
      }
      for (const item of list.items) items.push(item);
      keptOut.push(...(list.keptOut ?? []));
      version ??= list.metadata.resourceVersion;
      next = list.metadata.continue;
    } while (next !== undefined);
    return { items, version, keptOut };
  }

  /**
   * Waits while the gateway answers that its cache is being filled or checked or that there are too many requests, and
   * until the cache shows all that the run has seen.
   * @param namespace the view's only namespace; undefined for all.
   */
  async #ask(
    resource: Resource,
    namespace: string | undefined,
    path: string,
    onHeaders: (headers: Answer['headers']) => void = () => {},
  ): Promise<unknown> {
    const { syncWaitMs = SYNC_WAIT_MS, signal = new AbortController().signal, fetch: send = fetch } = this.#options;
    const { url, token } = addressOf(this.#location, isEncryptedKind(this.#location, resource));
    const until = systemClock.now() + syncWaitMs;
    const view = viewName(resource, namespace);
    const seen = this.#positions.get(view) ?? 0;
    for (;;) {
      const response = await send(url + path, {
        headers: { accept: 'application/json', authorization: `Bearer ${token}` },
        // A token goes to the address that the signed trigger named, and to no other. Trap: workerd lacks 'error'.
        redirect: 'manual',
        signal,
      });
      const position = Number(response.headers.get(POSITION_HEADER) ?? seen);
      const isOlder = position < seen;
      if (!isOlder) this.#positions.set(view, Math.max(position, this.#positions.get(view) ?? 0));
      if (response.ok && !isOlder) {
        onHeaders(response.headers);
        return await readJson(response, path);
      }
      const error = errorOf(response, await response.text(), isOlder);
      const { code, reason, retryAfterMs } = error;
      if (code === 400) throw new SelectorError(error.message);
      // A 503 with this reason is the gateway's own: it checks its data in Redis. A proxy's 503 has no reason, and
      // means that there is no gateway.
      const asksForPatience = code === 429 || (code === 503 && reason === 'ServiceUnavailable');
      if (!asksForPatience || retryAfterMs === undefined || systemClock.now() + retryAfterMs > until) {
        if (code !== 429) throw error;
        throw new Error(`the cache of ${formatKind(resource)} cannot be read now`, { cause: error });
      }
      await systemClock.sleep(retryAfterMs, signal);
    }
  }
}

/** Another gateway may answer next, or this one may reach the Redis that the others read. */
const OLDER_AGAIN_MS = 250;
const OLDER = { code: 503, reason: 'ServiceUnavailable', message: 'the cache lacks writes that this run has seen' };

/** @param isOlder whether the run has read a later state of the cache before. */
function errorOf({ headers, status }: Answer, body: string, isOlder: boolean): ApiError {
  if (isOlder) return new ApiError(OLDER, OLDER_AGAIN_MS);
  return new ApiError(statusFrom(body, status), parseRetryAfter(headers.get('retry-after'), systemClock.wallNow()));
}

type Answer = Awaited<ReturnType<CacheFetch>>;

interface ListBody<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
  readonly keptOut?: readonly KeptOut[];
}

/** The parser's own message shows a piece of the text, which may be a Secret's, and errors are logged. */
async function readJson(response: Awaited<ReturnType<CacheFetch>>, path: string): Promise<unknown> {
  const text = await response.text();
  try {
    return parseJson(text);
  } catch {
    throw new Error(`the answer to ${path.split('?', 1)[0]} is not JSON`);
  }
}

function addressOf({ url, token }: CacheLocation, encrypted: boolean): { url: string; token: string } {
  if (url === undefined || token === undefined) {
    throw new Error(
      `the trigger names no cache API: give the gateway an https address for it (its cache URL) and call the function by https${encrypted ? '' : ', or let the function read from Redis (redisCache)'}`,
    );
  }
  if (!isSecureUrl(url)) {
    throw new Error('the cache API is neither https nor on loopback: its token is not sent there');
  }
  return { url, token };
}
