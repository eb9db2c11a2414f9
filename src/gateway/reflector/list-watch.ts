import type { Readable } from 'node:stream';
import {
  isExpired,
  type KubernetesObject,
  type Resource,
  resourcePath,
  type ResourceVersion,
} from '../../core/index.ts';
import type { ApiClient, Query } from '../apiserver/api-client.ts';

/** What of a resource is listed and watched. */
export interface Scope {
  /** One namespace; all when absent. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface Page {
  readonly items: KubernetesObject[];
  readonly version: ResourceVersion;
  /** Forget the pages before this one: the list began anew, and what they named may be gone. */
  readonly startsOver: boolean;
}

const PAGE_SIZE = 500;

interface List {
  metadata: { resourceVersion: string; continue?: string };
  items: KubernetesObject[];
}

/** The requests that a reflector makes: list by pages, watch, and a look at the current version. No state, no retry. */
export class ListWatch {
  readonly #client: ApiClient;
  readonly #resource: Resource;
  readonly #path: string;
  readonly #selectors: Query;

  constructor(client: ApiClient, resource: Resource, scope: Scope = {}) {
    this.#client = client;
    this.#resource = resource;
    this.#path = resourcePath(resource, { namespace: scope.namespace });
    this.#selectors = { labelSelector: scope.labelSelector, fieldSelector: scope.fieldSelector };
  }

  /**
   * All objects, in pages of 500; each page carries the version of the whole list, which is the first page's. When a
   * continue token has expired, one full list takes the place of all pages, as client-go's pager has it
   * (tools/pager/pager.go).
   */
  async *pages(resourceVersion: string, signal: AbortSignal): AsyncGenerator<Page> {
    let query: Query = { limit: PAGE_SIZE, resourceVersion };
    let version: ResourceVersion | undefined;
    for (;;) {
      let list: List;
      let startsOver = false;
      try {
        list = await this.#list(query, signal);
      } catch (error) {
        if (version === undefined || !isExpired(error)) throw error;
        list = await this.#list({ resourceVersion }, signal);
        version = list.metadata.resourceVersion;
        startsOver = true;
      }
      version ??= list.metadata.resourceVersion;
      yield { items: list.items.map((item) => this.#named(item)), version, startsOver };
      if (!list.metadata.continue) return;
      query = { limit: PAGE_SIZE, continue: list.metadata.continue };
    }
  }

  /** The current version of the resource, read consistently (no resourceVersion: not from a cache that lags). */
  async currentVersion(signal: AbortSignal): Promise<ResourceVersion> {
    return (await this.#list({ limit: 1 }, signal)).metadata.resourceVersion;
  }

  watch(query: Query, signal: AbortSignal): Promise<Readable> {
    return this.#client.stream({
      path: this.#path,
      query: { ...this.#selectors, ...query, watch: true, allowWatchBookmarks: true },
      signal,
    });
  }

  #list(query: Query, signal: AbortSignal): Promise<List> {
    return this.#client.json<List>({ path: this.#path, query: { ...this.#selectors, ...query }, signal });
  }

  /** The items of a list carry neither apiVersion nor kind; those of a watch do. */
  #named(item: KubernetesObject): KubernetesObject {
    return { ...item, apiVersion: this.#resource.apiVersion, kind: this.#resource.kind };
  }
}
