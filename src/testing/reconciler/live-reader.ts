import {
  ApiError,
  formatKind,
  formatFieldSelector,
  formatLabelSelector,
  isNamespace,
  type KubernetesObject,
  type ObjectKey,
  parseFieldSelector,
  requirementsOf,
  type Resource,
  SelectorError,
} from '../../core/index.ts';
import type { CacheLocation, Selection } from '../../contract/index.ts';
import { observedItem } from '../../contract/observed.ts';
import { clusterScoped, isSelected, namespaceOfSelection } from '../../contract/selection.ts';
import type { ApiWriter } from '../../function/api-writer.ts';
import type { CacheReader, ListOptions, ListResult } from '../../function/cache-reader.ts';
import { canExist, namespacesOf } from '../../function/cache-views.ts';

/**
 * The cache of a reconciler under test. It reads the apiserver directly, by the rules of the cache: it has only the
 * kinds that the controller declares, indexes and selectors mean the same, and objects come without managedFields.
 * Unlike a gateway's cache it is never behind, so it cannot show how a controller handles an old state.
 */
export class LiveReader implements CacheReader {
  readonly #api: Pick<ApiWriter, 'get' | 'list'>;
  readonly #location: CacheLocation;
  readonly #clusterScoped: NonNullable<Selection['ownerKinds']>;
  readonly #secondsUnchanged: Readonly<Record<string, number>>;

  /**
   * @param resources the kinds in the cache.
   * @param secondsUnchanged by field, or for an item by the field and its values: `spec.taints{key} ["a"]`. Default:
   *   every value has just changed.
   */
  constructor(
    api: Pick<ApiWriter, 'get' | 'list'>,
    resources: readonly Resource[],
    secondsUnchanged: Readonly<Record<string, number>> = {},
  ) {
    this.#secondsUnchanged = secondsUnchanged;
    this.#api = api;
    this.#location = everythingOf(resources);
    this.#clusterScoped = clusterScoped(resources);
  }

  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    const isKept = namespacesOf(this.#location, resource, key.namespace).length > 0;
    if (!isKept || !canExist(resource, key)) return undefined;
    const found = await this.#api.get(resource, key);
    return found && trimmed(found);
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    namespacesOf(this.#location, resource, undefined);
    const { labelSelector, fieldSelector, ...rest } = options;
    const namespace = namespaceOfSelection(options);
    const labels = requirementsOf(labelSelector ?? '');
    const fields = parseFieldSelector(fieldSelector ?? '');
    if (namespace !== undefined && !isNamespace(namespace)) return { items: [], version: '0' };
    const { items, version } = await this.#api
      .list(resource, {
        ...(namespace === undefined ? {} : { namespace }),
        labelSelector: formatLabelSelector(labels),
        ...(fields.length > 0 ? { fieldSelector: formatFieldSelector(fields) } : {}),
      })
      .catch((error: unknown) => {
        // The cache's error for a field that cannot select an object.
        throw error instanceof ApiError && error.code === 400 ? new SelectorError(error.message) : error;
      });
    const isUidAlone = rest.controlledBy !== undefined && !rest.controlledBy.metadata.namespace;
    if (isUidAlone && this.#clusterScoped.length === 0) {
      throw new SelectorError(
        'controlledBy is an owner without a namespace, and all kinds that this controller reads are namespaced: pass the owner as it was read',
      );
    }
    const selection = { ...rest, labels, fields, ...(isUidAlone ? { ownerKinds: this.#clusterScoped } : {}) };
    const order = ({ metadata }: T): string => `${metadata.namespace ?? ''}/${metadata.name}`;
    const selected = items.filter((item) => isSelected(item, selection)).map(trimmed);
    return { items: selected.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)), version };
  }

  async secondsUnchanged(
    resource: Resource,
    key: ObjectKey,
    field: string,
    item?: object,
  ): Promise<number | undefined> {
    const found = await this.get(resource, key);
    const ofItem = item && this.#secondsUnchanged[`${field} ${observedItem(field, item) ?? ''}`];
    return found && (ofItem ?? this.#secondsUnchanged[field] ?? 0);
  }
}

/** A cache of all objects of these kinds. */
export function everythingOf(resources: readonly Resource[]): CacheLocation {
  return { views: Object.fromEntries(resources.map((each) => [formatKind(each), [{ prefix: 'test' }]])) };
}

/** The gateway's default transform. */
function trimmed<T extends KubernetesObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
