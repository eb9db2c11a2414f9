import type { KubernetesObject, ResourceVersion } from '../../core/index.ts';
import type { Reason } from '../../contract/index.ts';

/** What happened to one object, as the cache sees it. What handlers turn into wakeups. */
export type Change =
  | { readonly type: 'added'; readonly object: KubernetesObject }
  | { readonly type: 'updated'; readonly object: KubernetesObject; readonly old: KubernetesObject }
  /**
   * The object as the server sent it last; as the cache knew it last when a list told of the deletion (client-go's
   * `DeletedFinalStateUnknown`).
   */
  | { readonly type: 'deleted'; readonly object: KubernetesObject };

/** A key that a controller is to reconcile, and why. Keys travel, objects do not. */
export interface Wakeup {
  readonly controller: string;
  /** `namespace/name`, or `name`. */
  readonly key: string;
  readonly reasons: readonly Reason[];
}

/** Given each change before it is applied; answers with the keys that it wakes. Must not wait, must not throw. */
export type ChangeHandler = (change: Change) => readonly Wakeup[];

/** At most this many reasons travel with a key; the oldest stay, since they tell what set things off. */
export const MAX_REASONS = 8;

/** One wakeup for each controller and key, reasons joined: a chunk of a busy watch names the same key many times. */
export function mergeWakeups(wakeups: Iterable<Wakeup>): Wakeup[] {
  const merged = new Map<string, { controller: string; key: string; reasons: Reason[] }>();
  for (const { controller, key, reasons } of wakeups) {
    const id = `${controller}\n${key}`;
    const known = merged.get(id);
    if (!known) merged.set(id, { controller, key, reasons: reasons.slice(0, MAX_REASONS) });
    else if (known.reasons.length < MAX_REASONS) {
      known.reasons.push(...reasons.slice(0, MAX_REASONS - known.reasons.length));
    }
  }
  return [...merged.values()];
}

/** The reason that a change gives. */
export function reasonOf(change: Change): Reason {
  const { apiVersion, kind, metadata } = change.object;
  const name = metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
  const resourceVersion: ResourceVersion = metadata.resourceVersion;
  return { type: change.type, object: `${apiVersion}/${kind} ${name}`, resourceVersion };
}
