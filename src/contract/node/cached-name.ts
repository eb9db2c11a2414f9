import { createHash } from 'node:crypto';
import { formatObjectKey, MAX_NAMED, type ObjectKey } from '../../core/index.ts';

/** Characters of a longer name that stay, for people. */
const BEGINNING = 64;

/**
 * The name under which the cache has an object. The apiserver limits the names of most kinds to 253 characters, and
 * those of roles not at all; each index entry holds the name. An object with a name of more than `MAX_NAMED` characters
 * is kept out of the cache; its mark has the beginning of the name, `%` and a hash for a name. The apiserver refuses
 * `%` in names, so the mark never takes the place of another object, and `decodeObjectKey` refuses the mark's key.
 */
export function cachedName(name: string): string {
  if (name.length <= MAX_NAMED) return name;
  return `${name.slice(0, BEGINNING).toWellFormed()}%${createHash('sha256').update(name).digest('hex')}`;
}

/** The key under which a view has an object. */
export function cachedKey(key: ObjectKey): string {
  return formatObjectKey({ ...key, name: cachedName(key.name) });
}
