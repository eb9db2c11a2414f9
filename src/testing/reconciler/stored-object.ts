import { isRemovedByUpdate, type KubernetesObject, type ObjectMeta, type Resource } from '../../core/index.ts';
import { equal } from '../../function/equal.ts';
import { fullStatus, metadataOfStatusWrite } from './built-in-status.ts';
import { isSame } from './json.ts';
import { FakeApiError } from './fake-api-error.ts';

/** An object in the store. */
export interface StoredObject extends KubernetesObject {
  metadata: ObjectMeta & { deletionGracePeriodSeconds?: number };
  spec?: unknown;
  status?: unknown;
  [field: string]: unknown;
}

/** The object as the apiserver decodes its metadata, of custom kinds too: an empty or null field is an absent one. */
export function decoded(given: StoredObject): StoredObject {
  const isAbsent = (value: unknown): boolean =>
    value === null || (typeof value === 'object' && Object.keys(value).length === 0);
  const fields = Object.entries(given.metadata ?? {}).filter(([, value]) => !isAbsent(value));
  return { ...given, metadata: Object.fromEntries(fields) as unknown as StoredObject['metadata'] };
}

/** Whether a write changes nothing. Built-in kinds are compared as their types in Go: `{}` may be an absent field. */
export function changesNothing(old: object, next: object, isBuiltIn: boolean): boolean {
  return isBuiltIn ? equal(old, next) : isSame(old, next);
}

/**
 * Applies a write to an object, as registry/rest/update.go does: fields that only the apiserver sets are kept, a write
 * of the status keeps the rest and the other way round, and the generation counts changes of the desired state.
 */
export function updated(
  old: StoredObject,
  given: StoredObject,
  kind: { readonly resource: Resource; readonly hasStatus: boolean; readonly isBuiltIn: boolean },
  subresource: string | undefined,
): StoredObject {
  const { resource, hasStatus, isBuiltIn } = kind;
  const { uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation } = old.metadata;
  const fixed = { uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation };
  const { name, namespace, resourceVersion } = old.metadata;
  const metadata = { ...given.metadata, ...fixed, name, namespace, resourceVersion } as StoredObject['metadata'];
  for (const [field, value] of Object.entries(metadata)) {
    if (value === undefined) delete metadata[field as keyof ObjectMeta];
  }
  if (subresource === 'status') {
    const { status: _, ...rest } = old;
    const status = fullStatus(resource, given.status);
    const its = isBuiltIn ? metadataOfStatusWrite(resource, old.metadata, metadata) : old.metadata;
    checkFinalizers(old, its);
    return { ...rest, metadata: its, ...(status === undefined ? {} : { status }) };
  }
  if (subresource === 'finalize') {
    const { finalizers } = (given.spec ?? {}) as { finalizers?: readonly string[] };
    return { ...old, metadata: { ...old.metadata }, spec: { ...(old.spec as object), finalizers } };
  }
  checkFinalizers(old, metadata);
  const { status, ...rest } = { ...given, apiVersion: old.apiVersion, kind: old.kind, metadata };
  const kept = hasStatus ? old.status : status;
  const next = { ...rest, ...(kept === undefined ? {} : { status: kept }) } as StoredObject;
  if (generation !== undefined && !changesNothing(desired(old), desired(next), isBuiltIn)) {
    next.metadata.generation = generation + 1;
  }
  return next;
}

function checkFinalizers(old: StoredObject, { finalizers = [] }: ObjectMeta): void {
  const before = old.metadata.finalizers ?? [];
  const added = finalizers.filter((each) => !before.includes(each));
  if (!old.metadata.deletionTimestamp || added.length === 0) return;
  const what = 'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted';
  throw new FakeApiError(422, `${what}, found new finalizers ${JSON.stringify(added)}`);
}

/**
 * Applies a write of the whole object by another client. The identity and the generation are kept, unless the write
 * names others.
 */
export function overwritten(
  old: StoredObject | undefined,
  given: StoredObject,
  made: Partial<ObjectMeta>,
): StoredObject {
  const { uid, creationTimestamp, generation } = (old?.metadata ?? made) as ObjectMeta;
  const identity = { ...made, uid, ...(creationTimestamp ? { creationTimestamp } : {}) };
  const next = { ...given, metadata: { ...identity, ...given.metadata } };
  if (!old || generation === undefined) return next;
  const { generation: said = generation } = given.metadata;
  next.metadata.generation = said === generation && !isSame(desired(old), desired(next)) ? said + 1 : said;
  return next;
}

/** All but metadata and status. */
function desired({ metadata: _, status: __, ...rest }: StoredObject): object {
  return rest;
}

/** As the registry's `ShouldDeleteDuringUpdate`. */
export const isGone: (object: StoredObject) => boolean = isRemovedByUpdate;

export interface StoreDeleteOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly propagationPolicy?: string;
  readonly gracePeriodSeconds?: number;
}

/** The finalizers of an object after a delete with these options. */
export function finalizersFor(
  { metadata }: StoredObject,
  { propagationPolicy }: StoreDeleteOptions,
): readonly string[] {
  const rest = (metadata.finalizers ?? []).filter((each) => each !== 'orphan' && each !== 'foregroundDeletion');
  if (propagationPolicy === 'Orphan') return [...rest, 'orphan'];
  if (propagationPolicy === 'Foreground') return [...rest, 'foregroundDeletion'];
  return propagationPolicy === undefined ? (metadata.finalizers ?? []) : rest;
}

/** A century, because 2^63 - 1 seconds are a bigint and lead to no valid Date. */
const MAX_GRACE_SECONDS = 100 * 365 * 86_400;

/** The grace period: a pod on a node that has not ended yet gets time to stop, and its kubelet reports the end. */
export function graceSeconds(resource: Resource, object: StoredObject, options: StoreDeleteOptions): number {
  const { spec, status } = object as {
    spec?: { nodeName?: string; terminationGracePeriodSeconds?: number | bigint };
    status?: { phase?: string };
  };
  const runs = spec?.nodeName && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
  if (resource.kind !== 'Pod' || resource.apiVersion !== 'v1' || !runs) return 0;
  return Math.min(Number(options.gracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? 30), MAX_GRACE_SECONDS);
}
