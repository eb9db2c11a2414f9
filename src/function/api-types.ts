import type { KubernetesObject, LabelSelector, ObjectMeta } from '../core/index.ts';

/** An object to be created: the apiserver fills in the rest. Either `name` or `generateName`. */
export type NewObject<T extends KubernetesObject> = Omit<T, 'metadata' | 'apiVersion' | 'kind' | 'status'> & {
  metadata: Partial<T['metadata']>;
};

/** Some of the fields of a value, at any depth. */
export type Fields<T> = T extends readonly (infer E)[]
  ? readonly Fields<E>[]
  : T extends object
    ? { [K in keyof T]?: Fields<T[K]> }
    : T;

/** The fields of an object that a field manager wants to own, and its name. */
export type AppliedObject<T extends KubernetesObject> = {
  [K in Exclude<keyof T, 'metadata' | 'apiVersion' | 'kind'>]?: Fields<T[K]>;
} & { metadata: Partial<T['metadata']> & { readonly name: string } };

export interface ApplyOptions {
  /** The owner of the fields. Use the same name each time; otherwise fields of earlier applies stay behind. */
  readonly fieldManager: string;
  /** Takes fields from other managers. Default: such a conflict is refused with 409. */
  readonly force?: boolean;
  /** Applies to this part alone. Default: to everything else. */
  readonly subresource?: 'status' | 'scale';
}

export type Patch =
  | { readonly type: 'merge' | 'strategic'; readonly body: object }
  | { readonly type: 'json'; readonly body: readonly object[] };

export interface DeleteOptions {
  /** Refused with 409 when the object now has another UID or version. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  /** Default: the kind's own, which is `Background` for all but some old kinds. */
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  /** Default: the object's own. */
  readonly gracePeriodSeconds?: number;
}

/** Selects objects for a live list or a deleteCollection: all conditions must be met. */
export interface LiveSelection {
  /** Default: all namespaces; a deleteCollection of a namespaced kind must name one. */
  readonly namespace?: string;
  /** `metav1.LabelSelector`, or the text that kubectl takes: `app=web,tier notin (test),!old`. */
  readonly labelSelector?: LabelSelector | string;
  /** In kubectl's form. For every kind the apiserver can select by name and namespace, and by few other fields. */
  readonly fieldSelector?: string;
}

export interface LiveListOptions extends LiveSelection {
  /** Objects in one answer. Default 500, as client-go's pager. */
  readonly pageSize?: number;
}

export type DeleteCollectionOptions = LiveSelection & Omit<DeleteOptions, 'preconditions'>;

/** `autoscaling/v1` Scale: the actual and the desired number of replicas of an object of any scalable kind. */
export interface Scale extends KubernetesObject {
  metadata: ObjectMeta;
  /** Absent when it is 0, because Go omits zeros. */
  spec: { replicas?: number };
  status: { replicas: number; selector?: string };
}
