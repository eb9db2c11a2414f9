import type {
  KubernetesObject,
  LabelSelector,
  ObjectKey,
  OwnerIdentity,
  Resource,
  ResourceVersion,
} from '../core/index.ts';
import type { CacheLocation, IndexSpec } from '../contract/index.ts';

/** Which objects to list. All conditions must be met; without any, all that the cache holds of the resource. */
export interface ListOptions {
  readonly namespace?: string;
  /**
   * The owner that manages them (`controller: true`), as the function has read it: `controlledBy: site`. Only objects
   * in the owner's namespace are its own, whatever UID others name; objects of a cluster-scoped owner may be anywhere.
   * Read by index.
   */
  readonly controlledBy?: OwnerIdentity;
  /** Namespace of objects that no controller manages. Read by index. */
  readonly orphansIn?: string;
  /** `metav1.LabelSelector`, or the text that kubectl takes: `app=web,tier notin (test),!old`. */
  readonly labelSelector?: LabelSelector | string;
  /**
   * As kubectl takes it: `metadata.name=a`, the fields that the apiserver knows of built-in kinds, and the
   * `selectableFields` of a custom resource's definition.
   */
  readonly fieldSelector?: string;
  /**
   * Objects with this value in a declared index. Read by index once it is filled, until then by looking at all.
   * `labels`: by the declared index of all labels, for the labels with one value that `labelSelector` asks for.
   */
  readonly index?: { readonly spec: IndexSpec; readonly value: string } | 'labels';
}

export interface ListResult<T> {
  /** In the order of namespace and name. */
  readonly items: T[];
  /** Up to which the cache was complete before the first read. */
  readonly version: ResourceVersion;
  /**
   * Objects that belong to the list, and that the gateway keeps out of its cache since it cannot handle them (nested
   * too deep, or too large): their keys, and why. Absent when there are none.
   */
  readonly keptOut?: readonly KeptOut[];
}

/** An object that exists and that the cache does not show. */
export interface KeptOut {
  /** `namespace/name`, or `name`. */
  readonly key: string;
  readonly reason: string;
}

/**
 * Reads the gateway's cache. Objects are the reader's own copies.
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
   * For how many seconds the gateway has seen the value of an observed field unchanged: by the gateway's clock, not by
   * the function's, nor by that of the machine that writes the object. It survives restarts; when the gateway cannot
   * tell, after lost data or for a field that was not observed meanwhile, it begins anew. Undefined when the cache has
   * no such object, or does not know yet: take it for 0.
   *
   * A gateway that was away, or a slow watch, sees old values. So read the object with `context.api.get` before you act
   * on silence.
   * @param field as in `observes` of the controller: `spec.renewTime`. Of another one nothing is known.
   * @param item of a field with braces, `spec.taints{key,value}`: for how many seconds the gateway has seen this item,
   *   whatever became of the others. Default: the answer is for the list as a whole.
   */
  secondsUnchanged(resource: Resource, key: ObjectKey, field: string, item?: object): Promise<number | undefined>;
}

/** Opens the cache that a trigger points to. The signal is aborted when the run is over. */
export type OpenCache = (location: CacheLocation, run: { readonly signal: AbortSignal }) => CacheReader;

/** How long a read waits for a cache that is being filled for the first time. */
export const SYNC_WAIT_MS = 5000;
