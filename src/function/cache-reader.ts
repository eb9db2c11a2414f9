import type { KubernetesObject, LabelSelector, ObjectKey, Resource, ResourceVersion } from '../core/index.ts';
import type { IndexSpec } from '../contract/index.ts';

/** Which objects to list. All conditions must hold; without any, all that the cache holds of the resource. */
export interface ListOptions {
  readonly namespace?: string;
  /** UID of the owner that manages them (`controller: true`). Read by index. */
  readonly controlledBy?: string;
  /** Namespace of objects that no controller manages. Read by index. */
  readonly orphansIn?: string;
  readonly labelSelector?: LabelSelector;
  /** Objects with this value in a declared index. Read by index once it is filled, until then by looking at all. */
  readonly index?: { readonly spec: IndexSpec; readonly value: string };
}

export interface ListResult<T> {
  readonly items: T[];
  /** Up to which the cache was complete before the first read. */
  readonly version: ResourceVersion;
}

/**
 * Reads the gateway's cache. Objects are the reader's own copies.
 *
 * Every object is at least as new as everything that the key's previous run wrote, and in a list as the version that
 * comes with it. A list is not a snapshot: its objects may be of different moments. Kinds that the controller did not declare
 * (`for`, `owns`, `reads`) are not there: a TypeError.
 */
export interface CacheReader {
  /** Undefined when the cache has no such object. */
  get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined>;
  list<T extends KubernetesObject>(resource: Resource<T>, options?: ListOptions): Promise<ListResult<T>>;
}
