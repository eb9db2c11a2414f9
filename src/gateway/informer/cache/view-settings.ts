import { createHash } from 'node:crypto';
import { fieldAt, formatKind, ownValue, type Resource } from '../../../core/index.ts';
import type { CacheSettings, ViewSettings } from '../../../ground/config/cache-file.ts';
import { withoutMember } from '../reflector/json-text.ts';
import type { Transform } from '../reflector/watch-event.ts';

/** The kind whose objects are encrypted, or kept without their secret parts. */
export const SECRET = 'v1/Secret';
/** kubectl's copy of an applied object, values included. */
const LAST_APPLIED = ['metadata', 'annotations', 'kubectl.kubernetes.io/last-applied-configuration'];

/** Whether objects of this kind are encrypted in Redis: Secrets, unless their metadata alone is cached. */
export function isEncrypted(kind: string, settings: ViewSettings): boolean {
  return kind === SECRET && settings.metadataOnly !== true;
}

/** The fields that the cache leaves out. */
export function droppedFields({ drop = ['metadata.managedFields'] }: Pick<ViewSettings, 'drop'>): readonly string[] {
  return drop;
}

export function settingsFor(settings: CacheSettings, kind: string): ViewSettings {
  return { ...settings.defaults, ...ownValue(settings.kinds, kind) };
}

/**
 * A short name for what a view holds, part of all its keys: with other settings it is another view, which is listed
 * anew. So it is when a definition comes back with another scope or plural: its keys are of another form then.
 * @param namespace of a view that holds one namespace.
 */
export function settingsHash(settings: ViewSettings, resource: Resource, namespace?: string): string {
  const { labelSelector = '', fieldSelector = '', metadataOnly = false } = settings;
  const kind = formatKind(resource);
  const served = `${resource.plural} ${resource.namespaced ? 'namespaced' : 'cluster-scoped'}`;
  const parts = [
    served,
    namespace ?? '',
    labelSelector,
    fieldSelector,
    metadataOnly,
    droppedFields(settings).toSorted(),
  ];
  // The views of all other kinds keep their hash.
  if (kind === SECRET) parts.push(isEncrypted(kind, settings) ? 'encrypted' : 'without last-applied');
  const text = JSON.stringify(parts);
  return createHash('sha256').update(text).digest('base64url').slice(0, 10);
}

/**
 * Removes the fields that the settings leave out, and from the metadata of Secrets the annotation that holds their
 * values.
 */
export function transformOf(settings: ViewSettings, kind?: string): Transform {
  const paths = droppedFields(settings).map((path) => path.split('.'));
  if (kind === SECRET && !isEncrypted(kind, settings)) paths.push(LAST_APPLIED);
  return {
    object: (object) => {
      for (const path of paths) dropField(object as unknown as Record<string, unknown>, path);
    },
    text: (json) => paths.reduce(withoutMember, json),
  };
}

function dropField(object: Record<string, unknown>, path: readonly string[]): void {
  const holder = fieldAt(object, path.slice(0, -1));
  if (typeof holder === 'object' && holder !== null) delete (holder as Record<string, unknown>)[path.at(-1) ?? ''];
}
