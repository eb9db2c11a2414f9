/** The name of one object of a known kind. `namespace` is absent for a cluster-scoped object. */
export interface ObjectKey {
  readonly namespace?: string;
  readonly name: string;
}

/** `namespace/name`, or `name` alone for a cluster-scoped object: client-go's `MetaNamespaceKeyFunc`. */
export function formatObjectKey(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name;
}

/** The reverse of `formatObjectKey`. Throws on text with more than one slash, or an empty part. */
export function parseObjectKey(text: string): ObjectKey {
  const parts = text.split('/');
  const [first = '', second = ''] = parts;
  if (parts.length === 1 && first) return { name: first };
  if (parts.length === 2 && first && second) return { namespace: first, name: second };
  throw new TypeError(`"${text}" is not an object key: write namespace/name, or name for a cluster-scoped object`);
}
