import type { KubernetesObject, LabelSelector, ObjectMeta } from '../core/index.ts';

/** An object to be made: the apiserver fills in the rest. Either `name` or `generateName`. */
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
  /** Whose the fields become: the same name each time, or the fields of before stay behind. */
  readonly fieldManager: string;
  /** Take fields from other managers. Default: refused with 409. */
  readonly force?: boolean;
  /** Apply to this part alone. Default: to everything but it. */
  readonly subresource?: 'status' | 'scale';
}

export type Patch =
  | { readonly type: 'merge' | 'strategic'; readonly body: object }
  | { readonly type: 'json'; readonly body: readonly object[] };

export interface DeleteOptions {
  /** Refused with 409 when the object has another UID or version by now. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  /** Default: the kind's own, `Background` for all but some old ones. */
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  /** Default: the object's own. */
  readonly gracePeriodSeconds?: number;
}

/** Which objects a live list or a deleteCollection is about: all conditions must be met. */
export interface LiveSelection {
  /** Default: all namespaces; a deleteCollection of a namespaced kind must name one. */
  readonly namespace?: string;
  /** `metav1.LabelSelector`, or the text that kubectl takes: `app=web,tier notin (test),!old`. */
  readonly labelSelector?: LabelSelector | string;
  /** As kubectl takes it. The apiserver knows name and namespace of every kind, and few fields more. */
  readonly fieldSelector?: string;
}

export interface LiveListOptions extends LiveSelection {
  /** Objects in one answer. Default 500, as client-go's pager. */
  readonly pageSize?: number;
}

export type DeleteCollectionOptions = LiveSelection & Omit<DeleteOptions, 'preconditions'>;

/** `autoscaling/v1` Scale: how many replicas an object of any scalable kind has and should have. */
export interface Scale extends KubernetesObject {
  metadata: ObjectMeta;
  /** Absent, as every zero that Go leaves out, when it is 0. */
  spec: { replicas?: number };
  status: { replicas: number; selector?: string };
}
