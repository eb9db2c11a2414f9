import type {
  KubernetesObject,
  LabelSelector,
  ObjectKey,
  OwnerIdentity,
  Resource,
  ResourceVersion,
} from '../core/index.ts';
import type { CacheLocation, IndexSpec } from '../contract/index.ts';

/** Selects objects for a list. All conditions must be met; without conditions, all cached objects are listed. */
export interface ListOptions {
  readonly namespace?: string;
  /**
   * The owner that manages the objects (`controller: true`), as the function has read it: `controlledBy: site`. Only
   * objects in the owner's namespace count, because anyone may write its UID elsewhere; objects of a cluster-scoped
   * owner may be anywhere. The controller must declare such an owner's kind, because the gateway finds no objects of
   * an owner of another kind. Read by index.
   */
  readonly controlledBy?: OwnerIdentity;
  /** Objects in this namespace that no controller manages. Read by index. */
  readonly orphansIn?: string;
  /** `metav1.LabelSelector`, or the text that kubectl takes: `app=web,tier notin (test),!old`. */
  readonly labelSelector?: LabelSelector | string;
  /**
   * In kubectl's form: `metadata.name=a`, the selectable fields of built-in kinds, and the `selectableFields` of a
   * custom resource's definition.
   */
  readonly fieldSelector?: string;
  /**
   * Objects with this value in a declared index. Read by index once the index is filled, until then by scanning all.
   * `labels`: uses the declared index of all labels for each label of `labelSelector` that must have one certain value.
   */
  readonly index?: { readonly spec: IndexSpec; readonly value: string } | 'labels';
}

export interface ListResult<T> {
  /** In the order of namespace and name. */
  readonly items: T[];
  /** The cache was complete up to this version before the first read. */
  readonly version: ResourceVersion;
  /**
   * Objects of this list that the gateway keeps out of its cache because it cannot handle them (nested too deep, or too
   * large): their keys, and the reasons. Absent when there are none.
   */
  readonly keptOut?: readonly KeptOut[];
}

/** An existing object that the cache does not show. */
export interface KeptOut {
  /** `namespace/name`, or `name`. */
  readonly key: string;
  readonly reason: string;
}

/**
 * Reads the gateway's cache. The returned objects are copies that belong to the caller.
 *
 * A read returns objects that are at least as new as the writes of the key's previous run; objects of a list are also
 * at least as new as the list's version. A list is not a snapshot: its objects may be from different moments. It omits
 * an object that no longer belongs to it at the time of the read, and has each object that belonged to it throughout
 * exactly once.
 *
 * While the cache is being filled for the first time a read waits, for five seconds unless set otherwise, and then
 * fails. An object that the gateway cannot handle is kept out of the cache: `get` throws an error that says so, and a
 * list names it in `keptOut`. A read of a kind that the controller did not declare (`for`, `owns`, `watches`, `reads`)
 * throws a TypeError. An invalid selector throws a SelectorError.
 */
export interface CacheReader {
  /** Undefined when the cache has no such object. */
  get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined>;
  list<T extends KubernetesObject>(resource: Resource<T>, options?: ListOptions): Promise<ListResult<T>>;
  /**
   * How many seconds the gateway has seen the value of an observed field unchanged. The gateway's clock counts, not the
   * function's, nor that of the machine that writes the object. The time survives restarts; after lost data, or a time
   * without observation, it begins anew. Undefined when the cache has no such object, or does not know yet: treat it as
   * 0.
   *
   * A gateway that was away, or a slow watch, sees old values. So read the object with `context.api.get` before you act
   * on silence.
   * @param field as in `observes` of the controller: `spec.renewTime`. Other fields have no known time.
   * @param item of a field with braces, `spec.taints{key,value}`: the time of this item alone. Default: the time of the
   *   list as a whole.
   */
  secondsUnchanged(resource: Resource, key: ObjectKey, field: string, item?: object): Promise<number | undefined>;
}

/** Opens the cache that a trigger names. The signal is aborted when the run is over. */
export type OpenCache = (location: CacheLocation, run: { readonly signal: AbortSignal }) => CacheReader;

/** How long a read waits for a cache that is being filled for the first time. */
export const SYNC_WAIT_MS = 5000;
