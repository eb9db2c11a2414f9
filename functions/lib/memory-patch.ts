import type { KubernetesObject, OwnerReference } from 'levelhook/function';

// What the apiserver makes of patches, as far as the controllers' tests need it.

type Tree = Record<string, unknown>;
type Operation = { op: 'test' | 'add' | 'replace' | 'remove'; path: string; value?: unknown };

/** RFC 6902, of objects without arrays. Undefined when a test fails or a path leads nowhere. */
export function jsonPatched<T extends object>(object: T, patch: unknown): T | undefined {
  const result = structuredClone(object);
  for (const { op, path, value } of patch as Operation[]) {
    const keys = path.split('/').slice(1);
    const names = keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = names.pop() ?? '';
    const parent = names.reduce<Tree | undefined>((tree, name) => tree?.[name] as Tree | undefined, result as Tree);
    if (!parent || (op !== 'add' && !(last in parent))) return undefined;
    if (op === 'test' && JSON.stringify(parent[last]) !== JSON.stringify(value)) return undefined;
    if (op === 'add' || op === 'replace') parent[last] = value;
    if (op === 'remove') delete parent[last];
  }
  return result;
}

/** RFC 7386. */
export function mergePatched<T>(target: T, patch: unknown): T {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch as T;
  const result = (typeof target === 'object' ? { ...target } : {}) as Tree;
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatched(result[key], value);
  }
  return result as T;
}

/** A strategic merge patch of the owners: by UID. */
export function ownersPatched(object: KubernetesObject, { metadata }: KubernetesObject): KubernetesObject {
  const given = metadata.ownerReferences as (OwnerReference & { $patch?: string })[];
  const rest = (object.metadata.ownerReferences ?? []).filter(({ uid }) => given.every((owner) => owner.uid !== uid));
  const ownerReferences = [...rest, ...given.filter(({ $patch }) => $patch !== 'delete')];
  return { ...object, metadata: { ...object.metadata, ownerReferences } };
}
