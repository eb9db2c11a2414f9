import type { Readable } from 'node:stream';
import {
  ApiError,
  compareResourceVersions,
  type KubernetesObject,
  formatFieldSelector,
  parseObjectKey,
  type Resource,
  resourcePath,
  type ResourceVersion,
} from '../../../core/index.ts';
import {
  AnswerTooLargeError,
  type ApiClient,
  type ApiRequest,
  type Query,
} from '../../../ground/apiserver/api-client.ts';
import { versionsOf } from '../../../ground/apiserver/discovery.ts';

/** The part of a resource that is listed and watched. */
export interface Scope {
  /** One namespace; all when absent. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Objects come without spec and status. */
  readonly metadataOnly?: boolean;
  /** Fields that the caller removes from each object. The server may leave some of them out. Default: none. */
  readonly drop?: readonly string[] | undefined;
}

export interface Page {
  readonly items: KubernetesObject[];
  readonly version: ResourceVersion;
  /** The bytes of the page on the wire. */
  readonly bytes: number;
  /** The bytes that it takes in memory, about. */
  readonly weight: number;
}

const PAGE_SIZE = 500;
/**
 * The most bytes of a page, which is parsed in one go: the size of 500 ordinary objects. 500 of the largest would have
 * 750 MB.
 */
const PAGE_BYTES = 8 * 1024 * 1024;

/** An object that the server had at a version, for certain. */
export interface KnownObject {
  readonly key: string;
  readonly uid: string;
  readonly version: ResourceVersion;
}

interface List {
  metadata: { resourceVersion: string; continue?: string };
  /** The apiserver has null for an empty list of metadata. */
  items: KubernetesObject[] | null;
}

/** The requests that a reflector makes: list by pages, watch, and a look at the current version. No state, no retry. */
export class ListWatch {
  readonly #client: ApiClient;
  readonly #resource: Resource;
  readonly #path: string;
  readonly #selectors: Query;
  readonly #metadataOnly: boolean;
  readonly #scope: Scope;

  constructor(client: ApiClient, resource: Resource, scope: Scope = {}) {
    this.#client = client;
    this.#resource = resource;
    this.#scope = scope;
    this.#path = resourcePath(resource, { namespace: scope.namespace });
    this.#metadataOnly = scope.metadataOnly ?? false;
    this.#selectors = { labelSelector: scope.labelSelector, fieldSelector: scope.fieldSelector };
  }

  /** The same requests for the objects of one namespace. */
  in(namespace: string): ListWatch {
    return new ListWatch(this.#client, this.#resource, { ...this.#scope, namespace });
  }

  /**
   * Lists all objects in pages of 500, or fewer while objects are large, so that a page has at most 8 MiB unless a
   * single object is larger. Each page carries the version of the whole list, which is the first page's.
   * @throws ApiError 410 when a continue token has expired; the pages so far are then an incomplete list. client-go's
   *   pager then asks for all objects at once (tools/pager/pager.go), which may be more than this process can hold.
   */
  async *pages(resourceVersion: string, signal: AbortSignal): AsyncGenerator<Page> {
    let query: Query = { resourceVersion };
    let version: ResourceVersion | undefined;
    let limit = PAGE_SIZE;
    for (;;) {
      let page: Awaited<ReturnType<ApiClient['measuredJson']>>;
      try {
        const bound = limit > 1 ? { maxBytes: PAGE_BYTES } : {};
        page = await this.#client.measuredJson({ ...this.#listing({ limit, ...query }, signal), ...bound });
      } catch (error) {
        if (!(error instanceof AnswerTooLargeError)) throw error;
        // The apiserver ignores a limit when its watch cache answers, and honours it for the newest version.
        if (query['resourceVersion'] === '0') query = { resourceVersion: '' };
        else limit = Math.ceil(limit / 8);
        continue;
      }
      const { items: of, metadata } = page.value as List;
      const items = of ?? [];
      version ??= metadata.resourceVersion;
      for (const item of items) this.name(item);
      yield { items, version, bytes: page.bytes, weight: page.weight };
      if (!metadata.continue) return;
      query = { continue: metadata.continue };
      const fit = Math.floor((PAGE_BYTES * Math.max(items.length, 1)) / page.bytes);
      limit = Math.max(1, Math.min(limit * 2, PAGE_SIZE, fit));
    }
  }

  /**
   * The current version of the resource, read consistently (no resourceVersion: not from a cache that lags).
   * @param controller on whose behalf. Default: the gateway's own.
   */
  async currentVersion(signal: AbortSignal, controller?: string): Promise<ResourceVersion> {
    const client = controller === undefined ? this.#client : this.#client.for(controller);
    return (await this.#list({ limit: 1 }, signal, client)).metadata.resourceVersion;
  }

  /**
   * The current version, and whether the server's history is the one in which the known object was written: after a
   * restore of etcd its versions may long have passed ours again. One request while the known object is as it was, else
   * two.
   */
  async checkHistory(
    knownObject: KnownObject,
    signal: AbortSignal,
  ): Promise<{ version: ResourceVersion; history: 'same' | 'other' | 'unknown' }> {
    const now = await this.#listOne(knownObject, {}, signal);
    const version = now.metadata.resourceVersion;
    if (shows(now, knownObject)) return { version, history: 'same' };
    if (compareResourceVersions(version, knownObject.version) < 0) return { version, history: 'other' };
    try {
      const exactly = { resourceVersion: knownObject.version, resourceVersionMatch: 'Exact' };
      const then = await this.#listOne(knownObject, exactly, signal);
      return { version, history: shows(then, knownObject) ? 'same' : 'other' };
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === 429 || error.code >= 500) throw error;
      // Compacted away, or a server that cannot look back.
      return { version, history: 'unknown' };
    }
  }

  #listOne({ key }: KnownObject, query: Query, signal: AbortSignal): Promise<List> {
    const { name, namespace } = parseObjectKey(key);
    const own = formatFieldSelector([
      { field: 'metadata.name', operator: '=', value: name },
      ...(namespace ? [{ field: 'metadata.namespace', operator: '=' as const, value: namespace }] : []),
    ]);
    const fieldSelector = [this.#selectors['fieldSelector'], own].filter(Boolean).join(',');
    return this.#list({ ...query, fieldSelector, limit: 1 }, signal);
  }

  /** The versions of the resource's group in which the server has it: none when its definition is gone. */
  versionsServed(signal: AbortSignal): Promise<string[]> {
    return versionsOf(this.#client, this.#resource, signal);
  }

  watch(query: Query, signal: AbortSignal): Promise<Readable> {
    return this.#client.stream({
      path: this.#path,
      query: { ...this.#selectors, ...query, watch: true, allowWatchBookmarks: true },
      accept: this.#accept('PartialObjectMetadata'),
      signal,
    });
  }

  /**
   * Gives an object its kind: the items of a list carry none, and metadata alone comes as a PartialObjectMetadata.
   * @returns whether it had it.
   */
  name(object: KubernetesObject): boolean {
    const { apiVersion, kind } = this.#resource;
    if (object.apiVersion === apiVersion && object.kind === kind) return true;
    object.apiVersion = apiVersion;
    object.kind = kind;
    return false;
  }

  /**
   * Metadata alone, where the server can: an object may take 23 times its text, and each controller may ask for the
   * version of now after each of its runs.
   */
  #list(query: Query, signal: AbortSignal, client = this.#client): Promise<List> {
    const accept = `${metadataAs('PartialObjectMetadataList')},${JSON_TEXT}`;
    return client.json<List>({ ...this.#listing(query, signal), accept });
  }

  #listing(query: Query, signal: AbortSignal): ApiRequest {
    const accept = this.#accept('PartialObjectMetadataList');
    return { path: this.#path, query: { ...this.#selectors, ...query }, accept, signal };
  }

  #accept(partial: string): string {
    const accept = this.#metadataOnly ? metadataAs(partial) : JSON_TEXT;
    return this.#scope.drop?.includes(MANAGED_FIELDS) ? `${accept};drop=${MANAGED_FIELDS},${accept}` : accept;
  }
}

const JSON_TEXT = 'application/json';
/** Kubernetes 1.37 leaves them out on request (KEP-5958); an older apiserver ignores the parameter. */
const MANAGED_FIELDS = 'metadata.managedFields';
const metadataAs = (partial: string): string => `application/json;as=${partial};g=meta.k8s.io;v=v1`;

function shows(list: List, { uid, version }: KnownObject): boolean {
  return (list.items ?? []).some(({ metadata }) => metadata.uid === uid && metadata.resourceVersion === version);
}
