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
import { type Lookup, lookupText, type LookupWakeup } from '../../informer/cache/change.ts';
import type { View } from '../../informer/cache/view.ts';

/** A key to wake, or a lookup of keys after the change is applied. */
export type Target = { readonly key: string } | Pick<LookupWakeup, 'lookup'>;

/** Each key and each lookup once. Lookups that differ only in the keys that they name become one. */
export function mergeTargets(targets: readonly Target[]): Target[] {
  const merged = new Map<string, Target>();
  const named = new Map<string, Lookup & { readonly keys: readonly string[] }>();
  for (const target of targets) {
    if ('key' in target) merged.set(target.key, target);
    else if (!('keys' in target.lookup)) merged.set(lookupText(target.lookup), target);
    else {
      const id = lookupText({ ...target.lookup, keys: [] });
      const keys = new Set([...(named.get(id)?.keys ?? []), ...target.lookup.keys]);
      named.set(id, { ...target.lookup, keys: [...keys] });
    }
  }
  return [...merged.values(), ...[...named.values()].map((lookup) => ({ lookup }))];
}

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
   * The wakeups of these keys. Leaves out a key that is out of scope, or whose name is invalid, because the name may
   * come from any field of another object.
   */
  keys(keys: readonly ObjectKey[]): Target[] {
    const inScope = keys.filter(({ name, namespace }) => isNamedName(name) && this.contains(namespace));
    if (!this.labelSelector) return inScope.map((key) => ({ key: formatObjectKey(key) }));
    // Only the cache knows the labels of the keys' objects. One lookup for all of them, because each is stored whole.
    return this.views.flatMap((view) => {
      const own = new Set(inScope.filter(({ namespace }) => view.contains(namespace)).map(formatObjectKey));
      return own.size === 0 ? [] : [{ lookup: { view: view.location.prefix, entries: [], keys: [...own] } }];
    });
  }

  /**
   * The lookups of keys whose objects have the index entries.
   * @param namespace limits them. Default: all namespaces.
   */
  lookups(wanted: Omit<Lookup, 'view'>, namespace?: string): Target[] {
    return this.viewParts(namespace).map(({ view, namespace: within }) => {
      const where = within === undefined ? [] : [namespaceIndex(within)];
      return { lookup: { ...wanted, view: view.location.prefix, entries: [...where, ...wanted.entries] } };
    });
  }
}
