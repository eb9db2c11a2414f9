import { cachedName } from '../../../contract/node/cached-name.ts';
import { formatJson, type KubernetesObject, MAX_NAMED, type ObjectMeta } from '../../../core/index.ts';
import type { SentObject } from '../reflector/watch-event.ts';

/**
 * Levels of lists and objects within each other. Kubernetes' own kinds have some 30; the apiserver takes 10,000 in a
 * custom resource. Recursive code in Node.js fails between 3,000 and 8,000, in Python at 1,000.
 */
export const MAX_DEPTH = 256;
/**
 * Characters of an object's JSON. etcd takes 1.5 MiB by default; all objects of a chunk travel in one command to Redis.
 */
export const MAX_LENGTH = 8 * 1024 * 1024;

/** Why an object cannot be handled; undefined when it can. */
export function unhandledReason({ object, json }: SentObject): string | undefined {
  if (object.metadata.name.length > MAX_NAMED) return `its name has more than ${MAX_NAMED} characters`;
  if (json !== undefined && json.length > MAX_LENGTH) return `it has more than ${MAX_LENGTH} characters`;
  return isDeeper(object, MAX_DEPTH) ? `it is nested more than ${MAX_DEPTH} levels deep` : undefined;
}

/** Whether parsed JSON has more levels. Looks no deeper than that, so it does not run out of stack itself. */
export function isDeeper(value: object, levels: number): boolean {
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    // `for in` makes a text of each index: a list of 700,000 numbers takes 90 ms with it, and 1 ms without.
    for (const each of value as readonly unknown[]) if (isDeepValue(each, levels - 1)) return true;
    return false;
  }
  // `value` is parsed JSON, so it has no inherited field. `for in` makes no array of its values.
  const holder = value as Record<string, unknown>;
  for (const name in holder) if (isDeepValue(holder[name], levels - 1)) return true;
  return false;
}

function isDeepValue(value: unknown, levels: number): boolean {
  return typeof value === 'object' && value !== null && isDeeper(value, levels);
}

/** How many characters of metadata are kept of an object that was left out for lack of memory. */
const LEAST_LENGTH = 4096;

/**
 * As `metadataOf`, for an object that was left out for lack of memory. If the metadata is long, the parts whose length
 * a tenant controls are removed.
 */
export function leastMetadataOf(object: KubernetesObject): KubernetesObject {
  const whole = metadataOf(object);
  if (formatJson(whole).length <= LEAST_LENGTH) return whole;
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = whole.metadata;
  const metadata = { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp };
  return metadataOf({ ...whole, metadata: metadata as ObjectMeta });
}

/** The fields of metadata whose form the apiserver enforces for each kind: none of them is deep. */
const FIELDS = [
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'labels',
  'annotations',
  'finalizers',
  'ownerReferences',
] as const satisfies readonly (keyof ObjectMeta)[];

/**
 * The object's kind and metadata alone, under its name in the cache: handlers and readers get this in place of an
 * object that cannot be handled.
 */
export function metadataOf({ apiVersion, kind, metadata }: KubernetesObject): KubernetesObject {
  const kept = FIELDS.filter((field) => metadata[field] !== undefined).map((field) => [field, metadata[field]]);
  const name = cachedName(metadata.name);
  return { apiVersion, kind, metadata: { ...(Object.fromEntries(kept) as ObjectMeta), name } };
}
