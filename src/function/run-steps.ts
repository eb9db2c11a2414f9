import {
  formatJson,
  formatKind,
  formatObjectKey,
  messageOf,
  parseJson,
  resourcePath,
  statusFrom,
  systemClock,
} from '../core/index.ts';
import type { GroupVersionKind, KubernetesObject, ObjectKey, Resource } from '../core/index.ts';
import type { ApiTransport, ApiTransportAnswer, ApiTransportRequest } from './api-transport.ts';
import type { CacheReader, ListOptions } from './cache-reader.ts';
import { changesBetween, type SeenObjects, withoutCredentials } from './object-changes.ts';
import type { RunLog } from './run-log.ts';

/** Objects whose text a run keeps to compare it with what a write has made of them. */
const MOST_TEXTS = 16;
/** Names that one line has when a run reads object after object. */
const MOST_NAMES = 3;
const BODY = 200;

/**
 * Adds what a run reads and writes to its log: `+3 ms cache get v1/ConfigMap a/b: version 812`, `+5 ms PATCH
 * /apis/apps/v1/namespaces/a/deployments/web, 4 ms: spec.replicas 2 → 3`. It stands around the cache and the transport
 * of the run. Lines are made when the log is read, because most runs do not report theirs, and those of a busy function
 * say nothing of changes. Values of Secrets, and of
 * kinds that are encrypted in the cache, are left out.
 */
export class RunSteps {
  readonly #log: RunLog;
  readonly #seen: SeenObjects;
  readonly #isSecret: (kind: GroupVersionKind) => boolean;
  /** The last known text of an object, by its path. */
  readonly #texts = new Map<string, string>();

  /** @param isEncrypted whether a kind is encrypted in the cache. */
  constructor(log: RunLog, seen: SeenObjects, isEncrypted: (kind: GroupVersionKind) => boolean) {
    this.#log = log;
    this.#seen = seen;
    this.#isSecret = (kind) => formatKind(kind) === 'v1/Secret' || isEncrypted(kind);
  }

  /** The same cache, whose reads are steps. */
  cache(cache: CacheReader): CacheReader {
    let last: CacheGets | undefined;
    return {
      get: async (resource, key) => {
        const object = await cache.get(resource, key);
        if (last?.resource !== resource || !this.#log.isLast(last.line)) last = this.#addGets(resource);
        last.add(key, object, object && this.#keep(resource, key, object));
        return object;
      },
      list: async (resource, options) => {
        const list = await cache.list(resource, options);
        const { length } = list.items;
        const { version } = list;
        this.#log.step(
          () =>
            `cache list ${formatKind(resource)}${selectionOf(options, this.#isSecret(resource))}: ${length} at ${version}`,
        );
        return list;
      },
      secondsUnchanged: (...asked) => cache.secondsUnchanged(...asked),
    };
  }

  /** The same transport, whose requests are steps. */
  transport(send: ApiTransport): ApiTransport {
    return async (request) => {
      const sent = new SentRequest(request);
      const path = objectPathOf(sent.path);
      sent.before = path && this.#texts.get(path);
      this.#log.step(() => sent.text(this.#isSecret));
      try {
        const answer = await send(request);
        sent.end(answer);
        const isRead = answer.status < 300 && request.method !== 'DELETE' && path !== undefined;
        if (isRead && !this.#log.isBusy && (this.#texts.size < MOST_TEXTS || this.#texts.has(path)))
          this.#texts.set(path, answer.body);
        return answer;
      } catch (error) {
        sent.end(messageOf(error));
        throw error;
      }
    };
  }

  #addGets(resource: Resource): CacheGets {
    const gets = new CacheGets(resource);
    gets.line = this.#log.step(() => gets.text());
    return gets;
  }

  /**
   * Keeps the text of an object, at once, because the author may change the object; that of the last run, while the
   * object is of the same version.
   * @returns its text of the last run, and its text now. Undefined: the run has read too many, or has none to compare.
   */
  #keep(resource: Resource, { namespace, name }: ObjectKey, object: KubernetesObject): Compared | undefined {
    if (this.#log.isBusy) return undefined;
    const path = resourcePath(resource, { namespace, name });
    if (this.#texts.size >= MOST_TEXTS && !this.#texts.has(path)) return undefined;
    const version = object.metadata.resourceVersion;
    const after = this.#seen.textOf(path, version) ?? textOf(object);
    if (after === undefined) return undefined;
    this.#texts.set(path, after);
    const before = this.#isSecret(resource) ? undefined : this.#seen.replace(path, version, after);
    return before === undefined ? undefined : { before, after };
  }
}

/** Undefined for an object with more levels than code can walk through. */
function textOf(object: KubernetesObject): string | undefined {
  try {
    return formatJson(object);
  } catch {
    return undefined;
  }
}

interface Compared {
  readonly before: string;
  readonly after: string;
}

/** Reads of one kind from the cache, one after the other: a line for all of them. */
class CacheGets {
  readonly resource: Resource;
  /** The line in the log. */
  line: object | undefined;
  readonly #read: (() => string)[] = [];
  #count = 0;

  constructor(resource: Resource) {
    this.resource = resource;
  }

  add(key: ObjectKey, object: KubernetesObject | undefined, compared: Compared | undefined): void {
    this.#count += 1;
    if (this.#count > MOST_NAMES) return;
    const version = object?.metadata.resourceVersion;
    this.#read.push(() => {
      const state = version === undefined ? 'none' : `version ${version}${compared ? changedSince(compared) : ''}`;
      return `${formatObjectKey(key)}: ${state}`;
    });
  }

  text(): string {
    const more = this.#count - this.#read.length;
    const names = this.#read.map((each) => each()).join(', ');
    return `cache get ${formatKind(this.resource)} ${names}${more > 0 ? ` and ${more} more` : ''}`;
  }
}

function changedSince(compared: Compared): string {
  if (compared.before === compared.after) return '';
  const [before, after] = [parsed(compared.before), parsed(compared.after)];
  const changes = changesBetween(before, after);
  return changes === '' ? '' : ` (since the last run here: ${changes})`;
}

/** A request to the apiserver. It keeps texts that exist anyway, and parses them for a line that is reported. */
class SentRequest {
  readonly path: string;
  /** The object before a write, if the run has read it. */
  before: string | undefined;
  readonly #method: ApiTransportRequest['method'];
  readonly #body: string | undefined;
  readonly #startedMs = systemClock.now();
  #tookMs: number | undefined;
  #answer: ApiTransportAnswer | string | undefined;

  constructor({ method, path, body }: ApiTransportRequest) {
    this.path = path.replace(/[?&]timeout=\d+ms$/, '');
    this.#method = method;
    this.#body = body;
  }

  /** @param answer the error when there is none. */
  end(answer: ApiTransportAnswer | string): void {
    this.#tookMs = systemClock.now() - this.#startedMs;
    // Of a read and of a delete only the status is shown.
    const isRead = typeof answer === 'object' && ['GET', 'DELETE'].includes(this.#method) && answer.status < 300;
    this.#answer = isRead ? { ...answer, body: '' } : answer;
  }

  text(isSecret: (kind: GroupVersionKind) => boolean): string {
    const what = `${this.#method} ${this.path}`;
    if (this.#answer === undefined) return `${what}: no answer yet`;
    const took = `${what}, ${this.#tookMs} ms`;
    if (typeof this.#answer === 'string') return `${took}: no answer: ${this.#answer}`;
    const { status, body } = this.#answer;
    if (status >= 300) return `${took}: ${status} ${statusFrom(body, status).message}`;
    const detail = this.#method === 'GET' || this.#method === 'DELETE' ? '' : this.#detail(body, isSecret);
    return detail === '' ? took : `${took}: ${detail}`;
  }

  /** Says what a write has changed. If the run has not read the object before, it says what the write has sent. */
  #detail(answer: string, isSecret: (kind: GroupVersionKind) => boolean): string {
    const [after, sent, before] = [answer, this.#body, this.before].map(parsed);
    const kind = kindOf(after) ?? kindOf(sent);
    if (!kind) return '';
    const withValues = !isSecret(kind);
    if (before !== undefined) return changesBetween(before, after, withValues) || 'nothing has changed';
    if (this.#method === 'PUT' || !withValues) return '';
    const text = formatJson(withoutCredentials(withoutName(sent))) ?? '';
    return text.length > BODY ? `${text.slice(0, BODY)}…` : text;
  }
}

/** @param isSecret leaves out what may be a value of an object. */
function selectionOf(
  { namespace, labelSelector, fieldSelector, controlledBy, orphansIn, index }: ListOptions = {},
  isSecret = false,
): string {
  const texts = [
    namespace !== undefined && ` in ${namespace}`,
    controlledBy !== undefined && ` of the owner ${controlledBy.metadata.uid}`,
    orphansIn !== undefined && ` without an owner in ${orphansIn}`,
    labelSelector !== undefined &&
      ` labels ${typeof labelSelector === 'string' ? labelSelector : formatJson(labelSelector)}`,
    fieldSelector !== undefined && ` fields${isSecret ? '' : ` ${fieldSelector}`}`,
    typeof index === 'object' && ` index${isSecret ? '' : ` ${index.value}`}`,
  ];
  return texts.filter(Boolean).join(',');
}

/** The path of the object that is read or written; undefined for lists, creates, and for parts that are no object. */
function objectPathOf(path: string): string | undefined {
  const [whole = ''] = path.split('?', 1);
  return OBJECT.exec(whole)?.[1];
}

/** An object's own path, and the path of its status. */
const OBJECT = /^(\/api(?:s\/[^/]+)?\/[^/]+\/(?:namespaces\/[^/]+\/[^/]+|[^/]+)\/[^/]+)(?:\/status)?$/;

function kindOf(value: unknown): GroupVersionKind | undefined {
  const { apiVersion, kind } = (value ?? {}) as Partial<GroupVersionKind>;
  return typeof apiVersion === 'string' && typeof kind === 'string' ? { apiVersion, kind } : undefined;
}

/** Without what the path says already. */
function withoutName(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const { apiVersion: _, kind: _kind, metadata, ...rest } = value as Record<string, unknown>;
  const { namespace: _namespace, ...named } = (metadata ?? {}) as Record<string, unknown>;
  return Object.keys(named).length === 0 ? rest : { metadata: named, ...rest };
}

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : parseJson(text);
  } catch {
    return undefined;
  }
}
