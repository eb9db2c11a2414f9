import { formatKind, type GroupVersionKind, UserError } from '../../../core/index.ts';
import type { Description, IndexSpec } from '../../../contract/index.ts';
import { isSecureUrl } from '../../../contract/secure-url.ts';
import { isEncrypted, SECRET, settingsFor } from '../../informer/cache/view-settings.ts';
import type { CacheSettings } from '../../../ground/config/cache-file.ts';
import { variableOf } from '../../../ground/config/config.ts';

/** A declaration would show data that must be encrypted. */
export class EncryptedKindError extends UserError {
  readonly reason: 'KindNotEncrypted' | 'MapNotEncrypted' | 'IndexNotEncrypted' | 'EndpointNotSecure';
  /** Of the description: `watches.0.map`. */
  readonly field: string;

  constructor(reason: EncryptedKindError['reason'], field: string, message: string) {
    super(message);
    this.reason = reason;
    this.field = field;
  }
}

/**
 * Checks that this gateway can encrypt a kind that only keys name, if the kind must be encrypted.
 * @throws EncryptedKindError
 */
export function checkEncryptedKind(kind: GroupVersionKind, settings: CacheSettings, hasKeys: boolean): void {
  const name = formatKind(kind);
  if (hasKeys || !isEncrypted(name, settingsFor(settings, name))) return;
  throw new EncryptedKindError('KindNotEncrypted', 'relatedKinds', `${name} is cached only encrypted`);
}

/**
 * Checks that this gateway can cache the kinds of a description without showing data that must be encrypted.
 * @throws EncryptedKindError saying which setting or declaration to change.
 */
export function checkEncryptedKinds(description: Description, settings: CacheSettings, hasKeys: boolean): void {
  const { name, for: reconciled, owns, watches, reads, indexes } = description;
  const encrypted = (kind: GroupVersionKind): boolean =>
    isEncrypted(formatKind(kind), settingsFor(settings, formatKind(kind)));
  const named = [
    ['for', reconciled] as const,
    ...Object.entries({ owns, watches, reads }).flatMap(([field, kinds]) =>
      kinds.map((each, at) => [`${field}.${at}`, each] as const),
    ),
  ];
  const found = named.find(([, each]) => encrypted(each));
  if (!found) return;
  const kind = formatKind(found[1]);
  if (!hasKeys) {
    throw new EncryptedKindError(
      'KindNotEncrypted',
      found[0],
      `the controller "${name}" asks for ${kind}, which is cached only encrypted: set ${variableOf('cacheKeys')} to an id, ":" and base64 of 32 random bytes, or cache its metadata alone (${variableOf('cacheFile')}, ${kind}: { metadataOnly: true })`,
    );
  }
  const declared = indexes.filter(encrypted).map(({ index }) => index);
  const needed = encrypted(reconciled) ? watches.flatMap(({ map }) => (map.by === 'index' ? [map.index] : [])) : [];
  checkMaps(description, encrypted);
  const observed = description.observes?.find(encrypted);
  if (observed) {
    throw new EncryptedKindError(
      'IndexNotEncrypted',
      'observes',
      `the controller "${name}" observes ${observed.field} of ${formatKind(observed)}, whose values would be unencrypted in Redis`,
    );
  }
  const open = [...declared, ...needed].find((index) => !isMetadata(index));
  if (open === undefined) return;
  throw new EncryptedKindError(
    'IndexNotEncrypted',
    'indexes',
    `the controller "${name}" declares the index ${open} of ${kind}, whose values would be unencrypted in Redis: index it by label, or list without an index`,
  );
}

/**
 * Checks that reviews of Secrets go over https or loopback: a review has the whole object, also where the cache holds
 * its metadata alone.
 * @throws EncryptedKindError
 */
export function checkSecretReviews({ name, webhooks = [] }: Description, url: string): void {
  const at = webhooks.findIndex((each) => formatKind(each) === SECRET);
  if (at < 0 || isSecureUrl(url)) return;
  throw new EncryptedKindError(
    'EndpointNotSecure',
    `webhooks.${at}`,
    `the controller "${name}" reviews ${SECRET}, over https or loopback only: serve the function by https`,
  );
}

/** A map that reads an encrypted object would put its contents into the name of a key. */
function checkMaps({ name, watches }: Description, encrypted: (kind: GroupVersionKind) => boolean): void {
  const at = watches.findIndex((each) => encrypted(each) && ['annotation', 'field', 'cel'].includes(each.map.by));
  const watched = watches[at];
  if (!watched) return;
  throw new EncryptedKindError(
    'MapNotEncrypted',
    `watches.${at}.map`,
    `the controller "${name}" maps ${formatKind(watched)} by ${watched.map.by} (watches.${at}.map), and the resulting keys would be unencrypted in Redis: map it by label, owner or index, or to all`,
  );
}

/**
 * Whether an index shows labels only, which are no secrets. An annotation may hold secrets: kubectl keeps a whole copy
 * of the object in one.
 */
function isMetadata(index: IndexSpec): boolean {
  return index === 'labels' || index.startsWith('label:');
}
