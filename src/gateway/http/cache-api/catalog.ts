import {
  apiVersionPath,
  formatKind,
  groupOf,
  resource as resourceOf,
  type Resource,
  resourcePath,
  versionOf,
} from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { CacheScope } from '../../../contract/cache-scope.ts';
import type { View } from '../../informer/cache/view.ts';

/** One part of the cache that can be read. */
export interface ReadableView {
  readonly view: View;
  /** Make the view's version move soon. */
  readonly requestProgress: () => void;
  /** Whether it lacks nothing that may have been lost. */
  readonly checked: () => boolean;
}

/**
 * A kind that the cache API serves, and the views that hold it: one, or one for each cached namespace, in their order.
 */
export interface ServedKind {
  readonly resource: Resource;
  readonly views: readonly ReadableView[];
}

/** An entry of an APIResourceList. */
export interface ResourceEntry {
  readonly name: string;
  readonly singularName: string;
  readonly namespaced: boolean;
  readonly kind: string;
  readonly verbs: readonly string[];
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
}

/** A column of a custom resource, as its definition has it. */
export interface CustomColumn {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
  readonly jsonPath: string;
}

const DEFINITION = resourceOf('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

/** How long the apiserver's answer about a kind is used. */
const FRESH_MS = 60_000;

interface Remembered<T> {
  readonly value: Promise<T>;
  readonly untilMs: number;
}

/**
 * The kinds that the cache API serves. The apiserver is asked for a kind's short names and columns, which the cache
 * does not hold; without an answer there are none, and all else works.
 */
export class Catalog {
  readonly #views: () => readonly ReadableView[];
  readonly #client: Pick<ApiClient, 'json'>;
  readonly #now: () => number;
  readonly #remembered = new Map<string, Remembered<unknown>>();

  /** @param views all that are there at the moment. */
  constructor(views: () => readonly ReadableView[], client: Pick<ApiClient, 'json'>, now: () => number) {
    this.#views = views;
    this.#client = client;
    this.#now = now;
  }

  /** The wanted kinds alone are put in order: a gateway may have many other views. */
  #served(isWanted: (resource: Resource) => boolean): ServedKind[] {
    const wanted = this.#views().filter(({ view }) => isWanted(view.resource));
    const grouped = Map.groupBy(wanted, ({ view }) => formatKind(view.resource));
    return [...grouped.values()].flatMap((views) => {
      const [first] = views;
      // In the order of keys: keys of `a-b` come before keys of `a`.
      const placeOf = ({ view }: ReadableView): string => `${view.location.namespace ?? ''}/`;
      const sorted = views.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
      return first ? [{ resource: first.view.resource, views: sorted }] : [];
    });
  }

  /** The kinds that a token with this scope reads. */
  readable(scope: CacheScope): ServedKind[] {
    return this.#served((resource) => Object.hasOwn(scope, formatKind(resource)));
  }

  find(group: string, version: string, plural: string): ServedKind | undefined {
    const apiVersion = group ? `${group}/${version}` : version;
    return this.#served((resource) => resource.apiVersion === apiVersion && resource.plural === plural)[0];
  }

  async entry({ resource }: ServedKind): Promise<ResourceEntry> {
    const { apiVersion, kind, plural, namespaced } = resource;
    const list = await this.#ask<{ resources?: ResourceEntry[] }>(apiVersionPath(apiVersion));
    const found = list?.resources?.find(({ name }) => name === plural);
    const { shortNames, categories } = found ?? {};
    return {
      name: plural,
      singularName: found?.singularName || kind.toLowerCase(),
      namespaced,
      kind,
      verbs: ['get', 'list'],
      ...(shortNames ? { shortNames } : {}),
      ...(categories ? { categories } : {}),
    };
  }

  /** Of a custom resource; undefined for all other kinds, and when its definition names none. */
  async columns(kind: ServedKind): Promise<readonly CustomColumn[] | undefined> {
    return (await this.#definedVersion(kind))?.additionalPrinterColumns;
  }

  /** The paths that can select objects of a custom resource, in addition to name and namespace. */
  async selectableFields(kind: ServedKind): Promise<readonly string[]> {
    const { selectableFields = [] } = (await this.#definedVersion(kind)) ?? {};
    return selectableFields.map(({ jsonPath }) => jsonPath.replace(/^\./, ''));
  }

  /** Of the definition of a custom resource; undefined for all other kinds. */
  async #definedVersion({ resource }: ServedKind): Promise<DefinedVersion | undefined> {
    const group = groupOf(resource);
    // Kubernetes' own groups without a dot, and the core group, have no definitions.
    if (!group.includes('.')) return undefined;
    const path = resourcePath(DEFINITION, { name: `${resource.plural}.${group}` });
    const definition = await this.#ask<Definition>(path);
    const version = versionOf(resource);
    return definition?.spec?.versions?.find(({ name }) => name === version);
  }

  /** The apiserver's version, since the cache holds its objects. */
  version(): Promise<object | undefined> {
    return this.#ask<object>('/version');
  }

  #ask<T>(path: string): Promise<T | undefined> {
    const known = this.#remembered.get(path) as Remembered<T | undefined> | undefined;
    if (known && known.untilMs > this.#now()) return known.value;
    const remember = (value: Promise<T | undefined>, ms: number): Promise<T | undefined> => {
      // A kind may be served no more.
      for (const [each, { untilMs }] of this.#remembered) if (untilMs <= this.#now()) this.#remembered.delete(each);
      this.#remembered.set(path, { value, untilMs: this.#now() + ms });
      return value;
    };
    const asked = this.#client.json<T>({ path, signal: AbortSignal.timeout(ANSWER_MS) });
    return remember(
      asked.catch(() => remember(Promise.resolve(undefined), RETRY_MS)),
      FRESH_MS,
    );
  }
}

/** A list must not wait long for the apiserver, which it does not need. */
const ANSWER_MS = 2000;
/** How long no answer is taken for an answer. */
const RETRY_MS = 2000;

interface Definition {
  readonly spec?: {
    readonly versions?: readonly DefinedVersion[];
  };
}

interface DefinedVersion {
  readonly name: string;
  readonly additionalPrinterColumns?: readonly CustomColumn[];
  readonly selectableFields?: readonly { readonly jsonPath: string }[];
}
