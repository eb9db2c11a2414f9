import { formatKind, LimitedLines, messageOf, type Runtime, tenantOf } from '../../../core/index.ts';
import { allows, type CacheScope } from '../../../contract/cache-scope.ts';
import { type CachePositions, TokenError } from '../../controller/access/token.ts';
import { negotiate, wantsAggregated } from './accept.ts';
import { AnswerRoom, type HeldAnswer } from './answer-room.ts';
import type { Catalog, ServedKind } from './catalog.ts';
import { AGGREGATED, aggregatedDocument, discoveryDocument } from './discovery-documents.ts';
import {
  badRequest,
  beingChecked,
  forbidden,
  forbiddenPath,
  HEADERS,
  methodNotAllowed,
  noSuchResource,
  StatusError,
  type StatusParts,
  statusResponse,
  tooManyRequests,
  unauthorized,
  unavailable,
  watchNotSupported,
} from './kubernetes-status.ts';
import { ReaderRateLimit } from './rate-limit.ts';
import { readList, readObject, type ReadingOptions } from './reading.ts';
import type { ReadingTime, ReadingTimes } from './reading-time.ts';
import { requestInfo, type ResourceRequest } from './request-info.ts';
import { VersionWaits } from './version-waits.ts';

export interface CacheApiOptions extends Pick<ReadingOptions, 'listLimit'> {
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly catalog: Catalog;
  /** Checks a token. @throws TokenError */
  readonly verify: (token: string) => CacheApiClient;
  /** Whether the cache may be read: Redis is there and has lost nothing. */
  readonly available: () => boolean;
  readonly times: ReadingTimes;
  readonly requestsPerSecond: number;
}

/** The bearer of a token. */
export interface CacheApiClient {
  /** The controller's id, or the name of a person. Refusals show it as `levelhook:controller:NAME`. */
  readonly name: string;
  /** The part of the cache that it may read now. */
  readonly scope: CacheScope;
  /** The state of the cache that its runs may have seen: an older cache is refused. Undefined: none. */
  readonly positions: CachePositions | undefined;
  /**
   * Whether the work that the token was made for goes on, and its account is there. Rejects when Redis does not answer.
   */
  readonly goesOn: () => Promise<boolean>;
}

/** One request under way. */
interface Answering {
  /** The path under which the API is. */
  readonly root: string;
  /** For the metrics. */
  readonly verb: { text: string };
  readonly held: HeldAnswer;
  readonly time: ReadingTime;
}

/** The paths at which Kubernetes describes its types. There is no description here, and any client may ask. */
const UNDESCRIBED = /^\/openapi\//;

/**
 * The cache, as a Kubernetes API that can be read: GET and LIST with selectors, pages, Tables and discovery, errors as
 * Status objects. Each request needs a token, and the token alone decides what the request sees. A kind outside the
 * token's scope looks like a kind that does not exist, as with RBAC.
 */
export class CacheApi {
  readonly #options: CacheApiOptions;
  readonly #limit: ReaderRateLimit;
  readonly #room = new AnswerRoom();
  readonly #versionWaits: VersionWaits;
  readonly #lines: LimitedLines;

  constructor(options: CacheApiOptions) {
    this.#options = options;
    this.#limit = new ReaderRateLimit(options.requestsPerSecond, options.runtime.clock);
    this.#versionWaits = new VersionWaits(options.runtime.clock);
    this.#lines = new LimitedLines(options.runtime.clock);
  }

  /** Never rejects. @param root the path under which the API is. */
  async handle(request: Request, root: string): Promise<Response> {
    const { logger, metrics } = this.#options.runtime;
    const verb = { text: 'other' };
    let response: Response;
    try {
      response = await this.#answer(request, root, verb);
    } catch (error) {
      if (!(error instanceof StatusError)) {
        const fields = { error: messageOf(error) };
        this.#lines.write('', (more) => logger.error({ ...fields, ...more }, 'a request to the cache API failed'));
      }
      const status: StatusParts =
        error instanceof StatusError ? error.status : { code: 500, reason: 'InternalError', message: 'internal error' };
      response = statusResponse(status, request.method === 'HEAD');
    }
    metrics.count('levelhook_cache_requests_total', { verb: verb.text, code: String(response.status) });
    return response;
  }

  async #answer(request: Request, root: string, verb: { text: string }): Promise<Response> {
    const reader = this.#authenticate(request.headers.get('authorization'));
    if (!this.#limit.take(reader.name)) {
      throw tooManyRequests('Too many requests, please try again later.');
    }
    const time = this.#options.times.for(reader.name);
    time.check();
    const held = this.#room.for({ name: tenantOf(reader.name), isKnown: false });
    try {
      // Together, since both may ask Redis.
      const goesOn = reader.goesOn();
      const answering = this.#answerTo(reader, request, { root, verb, held, time });
      const [isGood, answered] = await Promise.allSettled([goesOn, answering]);
      if (isGood.status === 'rejected') throw isGood.reason;
      if (!isGood.value) throw unauthorized();
      if (answered.status === 'rejected') throw answered.reason;
      return answered.value;
    } catch (error) {
      held.giveBack();
      throw error;
    }
  }

  async #answerTo(reader: CacheApiClient, request: Request, { root, verb, held, time }: Answering): Promise<Response> {
    const { catalog } = this.#options;
    const url = new URL(request.url);
    const path = decodedPath(url.pathname.slice(root.length));
    const user = `levelhook:controller:${reader.name}`;
    const info = requestInfo(request.method, path, url.searchParams);
    if (info.kind === 'other') throw UNDESCRIBED.test(path) ? noSuchResource() : forbiddenPath(user, path);
    if (info.kind === 'document') {
      verb.text = 'discover';
      if (request.method !== 'GET') throw methodNotAllowed();
      return await this.#document(info.parts, reader, { path, user, accept: request.headers.get('accept') });
    }
    if (['get', 'list', 'watch'].includes(info.verb)) verb.text = info.verb;
    const kind = this.#authorize(info, reader, user);
    if (request.method !== 'GET') throw methodNotAllowed();
    if (info.verb === 'watch') throw watchNotSupported(info);
    this.#checkAvailable(kind);
    const { namespaced } = kind.resource;
    if (info.tooLong || (namespaced ? info.name !== undefined && !info.namespace : !ownPath(info))) {
      throw noSuchResource();
    }
    const form = negotiate(request.headers.get('accept'));
    const positions = reader.positions?.[formatKind(kind.resource)];
    const asked = { kind, request: info, query: url.searchParams, form, catalog, scope: reader.scope, positions };
    const { listLimit, runtime } = this.#options;
    const options = { listLimit, clock: runtime.clock, held, time, versionWaits: this.#versionWaits };
    const response = await (info.name === undefined ? readList(asked, options) : readObject(asked, options));
    // Redis may have come back without its last writes while it was read.
    this.#checkAvailable(kind);
    return response;
  }

  /** @throws StatusError 503 */
  #checkAvailable({ views }: ServedKind): void {
    if (!this.#options.available() || !views.every(({ checked }) => checked())) throw beingChecked();
  }

  #authenticate(header: string | null): CacheApiClient {
    const token = /^Bearer +([^ ]+) *$/i.exec(header ?? '')?.[1];
    if (token === undefined) throw unauthorized();
    if (!this.#options.available()) throw beingChecked();
    try {
      return this.#options.verify(token);
    } catch (error) {
      if (error instanceof TokenError) throw unauthorized();
      throw error;
    }
  }

  /** The kind, when the token allows to read it there. A kind that is not cached gets the same refusal. */
  #authorize(info: ResourceRequest, { scope }: CacheApiClient, user: string): ServedKind {
    const kind = this.#options.catalog.find(info.group, info.version, info.resource);
    const name = kind && formatKind(kind.resource);
    const namespace = kind?.resource.namespaced === false ? undefined : info.namespace;
    if (!kind || !name || info.subresource !== undefined || !allows(scope, name, namespace)) {
      throw forbidden(user, info.verb, info);
    }
    return kind;
  }

  async #document(
    parts: readonly string[],
    { scope }: CacheApiClient,
    { path, user, accept }: { path: string; user: string; accept: string | null },
  ): Promise<Response> {
    const { catalog } = this.#options;
    if (parts[0] === 'version') {
      const version = await catalog.version();
      if (!version) throw unavailable('the apiserver does not tell its version now');
      return json(version);
    }
    const [prefix] = parts;
    if (prefix !== 'api' && prefix !== 'apis') throw forbiddenPath(user, path);
    const readable = catalog.readable(scope);
    if (parts.length === 1 && wantsAggregated(accept)) {
      return json(await aggregatedDocument(prefix, readable, catalog), AGGREGATED);
    }
    const document = await discoveryDocument(parts, readable, catalog);
    if (!document) throw noSuchResource();
    return json(document);
  }
}

/** A cluster-scoped kind has no namespace in its path, but for namespaces themselves, which are in their own. */
function ownPath({ group, resource, namespace, name }: ResourceRequest): boolean {
  return namespace === undefined || (group === '' && resource === 'namespaces' && name === namespace);
}

function decodedPath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw badRequest('the path is not readable');
  }
}

function json(value: object, type = 'application/json'): Response {
  return new Response(`${JSON.stringify(value)}\n`, { headers: { ...HEADERS, 'content-type': type, vary: 'Accept' } });
}
