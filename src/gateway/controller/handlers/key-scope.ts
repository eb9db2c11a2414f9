import {
  decodeObjectKey,
  formatObjectKey,
  isNamedName,
  type KubernetesObject,
  type LabelSelector,
  matchesLabels,
  type ObjectKey,
  type Resource,
} from '../../../core/index.ts';
import { namespaceIndex } from '../../../contract/cache-layout.ts';
import type { ReconciledDescription } from '../../../contract/index.ts';
import type { Lookup, LookupWakeup } from '../../informer/cache/change.ts';
import type { View } from '../../informer/cache/view.ts';

/** A key to wake, or a lookup of keys after the change is applied. */
export type Target = { readonly key: string } | Pick<LookupWakeup, 'lookup'>;

/** A part of a view in which a controller has keys: the whole view, or one namespace. */
export interface ViewPart {
  readonly view: View;
  readonly namespace?: string;
}

/**
 * Decides which keys a controller reconciles: the keys of kind `for` in the declared namespaces, as far as the gateway
 * caches them, whose objects match the declared label selector. Every part that queues keys checks them here first.
 */
export class KeyScope {
  readonly resource: Resource;
  /** Selects objects. A key whose object does not exist is in the scope. */
  readonly labelSelector: LabelSelector | undefined;
  /** The views of the kind `for`. */
  readonly views: readonly View[];
  readonly #namespaces: ReadonlySet<string> | undefined;

  constructor(
    resource: Resource,
    { namespaces, labelSelector }: Pick<ReconciledDescription, 'namespaces' | 'labelSelector'>,
    views: readonly View[],
  ) {
    this.resource = resource;
    this.labelSelector = labelSelector;
    this.#namespaces = namespaces && new Set(namespaces);
    this.views = views;
  }

  /** Whether keys in this namespace belong to the scope; undefined for cluster-scoped keys. */
  contains(namespace: string | undefined): boolean {
    if (this.resource.namespaced !== (namespace !== undefined)) return false;
    if (namespace !== undefined && this.#namespaces?.has(namespace) === false) return false;
    return this.views.some((view) => view.contains(namespace));
  }

  /** Whether a key, in the text form of queues and outboxes, belongs to the scope. Invalid text does not. */
  containsKey(text: string): boolean {
    const key = decodeObjectKey(text);
    return key !== undefined && this.contains(key.namespace);
  }

  selects({ metadata }: KubernetesObject): boolean {
    return this.labelSelector === undefined || matchesLabels(this.labelSelector, metadata.labels);
  }

  /** The parts of views that have its keys. @param namespace only the parts in this namespace. Default: all. */
  viewParts(namespace?: string): ViewPart[] {
    const all = this.resource.namespaced ? this.#namespaces : undefined;
    const wanted = namespace === undefined ? all : [namespace];
    if (!wanted) return this.views.map((view) => ({ view }));
    return [...wanted]
      .filter((each) => this.contains(each))
      .flatMap((each) => this.views.filter((view) => view.contains(each)).map((view) => ({ view, namespace: each })));
  }

  /**
   * The wakeup of one key. Empty when the key is out of scope, or when its name is invalid, because the name may come
   * from any field of another object.
   */
  key(key: ObjectKey): ({ readonly key: string } | { readonly lookup: Lookup })[] {
    if (!isNamedName(key.name) || !this.contains(key.namespace)) return [];
    const formatted = formatObjectKey(key);
    if (!this.labelSelector) return [{ key: formatted }];
    // Only the cache knows the labels of the key's object.
    return this.views
      .filter((view) => view.contains(key.namespace))
      .map(({ location }) => this.#lookup({ view: location.prefix, entries: [], keys: [formatted] }));
  }

  /**
   * The lookups of keys whose objects have the index entries.
   * @param namespace limits them. Default: all namespaces.
   */
  lookups(wanted: Omit<Lookup, 'view' | 'labelSelector'>, namespace?: string): Target[] {
    return this.viewParts(namespace).map(({ view, namespace: within }) => {
      const where = within === undefined ? [] : [namespaceIndex(within)];
      return this.#lookup({ ...wanted, view: view.location.prefix, entries: [...where, ...wanted.entries] });
    });
  }

  #lookup(lookup: Lookup): { readonly lookup: Lookup } {
    return { lookup: this.labelSelector ? { ...lookup, labelSelector: this.labelSelector } : lookup };
  }
}
