import { isName, isNamespace, shown } from './names.ts';

/** The name of one object of a known kind. `namespace` is absent for a cluster-scoped object. */
export interface ObjectKey {
  readonly namespace?: string;
  readonly name: string;
}

/** `namespace/name`, or `name` alone for a cluster-scoped object: client-go's `MetaNamespaceKeyFunc`. */
export function formatObjectKey(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name;
}

/**
 * The namespace in a key of the cache. Unlike `decodeObjectKey` it takes the key of a long name, too (`cachedName`).
 */
export function namespaceOfKey(key: string): string | undefined {
  const slash = key.indexOf('/');
  return slash < 0 ? undefined : key.slice(0, slash);
}

/** The reverse of `formatObjectKey`. Undefined for text that is no object's key. */
export function decodeObjectKey(text: string): ObjectKey | undefined {
  const slash = text.indexOf('/');
  const name = text.slice(slash + 1);
  if (!isName(name)) return undefined;
  if (slash < 0) return { name };
  const namespace = text.slice(0, slash);
  return isNamespace(namespace) ? { namespace, name } : undefined;
}

/** The reverse of `formatObjectKey`. @throws TypeError for text that is no object's key. */
export function parseObjectKey(text: string): ObjectKey {
  const key = decodeObjectKey(text);
  if (key) return key;
  throw new TypeError(`${shown(text)} is not an object key: write namespace/name, or name for a cluster-scoped object`);
}
