import { formatKind, type GroupVersionKind, UserError } from '../../core/index.ts';
import type { Description, IndexSpec } from '../../contract/index.ts';
import { type CacheSettings, isSealed, settingsFor } from '../cache/view-settings.ts';

/**
 * Whether this gateway can cache what a controller declares without showing what must be encrypted. A controller declares a
 * kind by naming it; nothing else caches it.
 * @throws UserError saying what to set, or to change.
 */
export function checkSealedKinds(description: Description, settings: CacheSettings, hasKeys: boolean): void {
  const { name, for: reconciled, owns, watches, reads, indexes } = description;
  const sealed = (kind: GroupVersionKind): boolean =>
    isSealed(formatKind(kind), settingsFor(settings, formatKind(kind)));
  const found = [reconciled, ...owns, ...watches, ...reads].find(sealed);
  if (!found) return;
  const kind = formatKind(found);
  if (!hasKeys) {
    throw new UserError(
      `the controller "${name}" asks for ${kind}, which is cached only encrypted: set LEVELHOOK_CACHE_KEYS to an id, ":" and base64 of 32 random bytes, or cache its metadata alone (LEVELHOOK_CACHE_FILE, ${kind}: { metadataOnly: true })`,
    );
  }
  const declared = indexes.filter(sealed).map(({ index }) => index);
  const needed = sealed(reconciled) ? watches.flatMap(({ map }) => (map.by === 'index' ? [map.index] : [])) : [];
  checkMaps(description, sealed);
  const open = [...declared, ...needed].find((index) => !isMetadata(index));
  if (open === undefined) return;
  throw new UserError(
    `the controller "${name}" declares the index ${open} of ${kind}, whose values would stand in Redis in the open: index it by label, or list without an index`,
  );
}

/** What a map finds in an encrypted object becomes the name of a key. */
function checkMaps({ name, watches }: Description, sealed: (kind: GroupVersionKind) => boolean): void {
  const at = watches.findIndex((each) => sealed(each) && ['annotation', 'field', 'cel'].includes(each.map.by));
  const watched = watches[at];
  if (!watched) return;
  throw new UserError(
    `the controller "${name}" maps ${formatKind(watched)} by ${watched.map.by} (watches.${at}.map), and what it finds would stand in Redis in the open as a key: map it by label, owner or index, or to all`,
  );
}

/** Labels select, and stand in the names of things everywhere. Annotations hold whatever a tool leaves there: kubectl a whole copy. */
function isMetadata(index: IndexSpec): boolean {
  return index.startsWith('label:');
}
