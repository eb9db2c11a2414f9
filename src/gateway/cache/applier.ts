import {
  compareResourceVersions,
  formatKind,
  formatObjectKey,
  type KubernetesObject,
  keyOf,
  type Metrics,
  type ResourceVersion,
} from '../../core/index.ts';
import { decodeEntry, encodeEntry, indexEntriesOf, type ObjectEntry } from '../../contract/index.ts';
import { decodeObject, encodeObject } from '../../contract/node/codec.ts';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { type Change, type ChangeHandler, mergeWakeups, type Wakeup } from './change.ts';
import type { View, ViewOperation } from './view.ts';

/** The object as the applier last saw it in this chunk or in Redis. */
interface Known {
  readonly entry: ObjectEntry;
  readonly object: KubernetesObject;
}

/**
 * The only writer of a view. Takes the reflector's events in chunks, compares each with what the cache holds, asks the
 * handlers which keys the change wakes, and then applies objects, indexes, wakeups and version with one script. A crash
 * before the script leaves everything as it was, and the watch resumes from the view's version; a crash after it leaves
 * the wakeups in the outbox.
 */
export class Applier {
  readonly #view: View;
  readonly #handle: ChangeHandler;
  readonly #metrics: Metrics;
  /** During a list: the keys that it has named. What the view holds beside them is gone. */
  #listed: { keys: Set<string>; timeWentBackwards: boolean; silent: boolean } | undefined;

  constructor(view: View, handle: ChangeHandler, metrics: Metrics) {
    this.#view = view;
    this.#handle = handle;
    this.#metrics = metrics;
  }

  /** Applies events in their order. @throws ForeignTermError when another gateway has taken the view. */
  async apply(events: readonly WatchEvent[]): Promise<void> {
    // A list's frame changes the rules, so a chunk is applied in the pieces between frames.
    let piece: WatchEvent[] = [];
    for (const event of events) {
      if (event.kind !== 'init' && event.kind !== 'init-done') {
        piece.push(event);
        continue;
      }
      await this.#applyPiece(piece);
      piece = [];
      if (event.kind === 'init') await this.#beginList(event.timeWentBackwards);
      else await this.#endList(event.version);
    }
    await this.#applyPiece(piece);
  }

  async #beginList(timeWentBackwards: boolean): Promise<void> {
    // The first list of a view wakes nobody: its controllers get all their keys when it is complete (`initial`).
    const silent = (await this.#view.state()).version === undefined;
    this.#listed = { keys: new Set(), timeWentBackwards, silent };
  }

  async #endList(version: ResourceVersion): Promise<void> {
    const listed = this.#listed;
    if (!listed) return;
    for await (const keys of this.#view.keys()) {
      const gone = keys.filter((key) => !listed.keys.has(key));
      const known = await this.#known(gone);
      const operations = [];
      const wakeups: Wakeup[] = [];
      for (const [key, { entry, object }] of known) {
        // Written by a watch since the list: newer than what the list tells.
        if (!listed.timeWentBackwards && compareResourceVersions(entry.resourceVersion, version) > 0) continue;
        wakeups.push(...this.#wake({ type: 'deleted', object }));
        operations.push({ kind: 'D' as const, key, version });
      }
      if (operations.length > 0)
        await this.#view.apply({ ...this.#frame(), operations, wakeups: mergeWakeups(wakeups) });
    }
    await this.#view.apply({ version, incomparable: false, operations: [], wakeups: [] });
    this.#listed = undefined;
  }

  async #applyPiece(events: readonly WatchEvent[]): Promise<void> {
    if (events.length === 0) return;
    const known = await this.#known(keysOf(events));
    const operations = new Map<string, ViewOperation>();
    const wakeups: Wakeup[] = [];
    let version: ResourceVersion | undefined;
    for (const event of events) {
      if (event.kind === 'bookmark') version = event.version;
      if (event.kind === 'bookmark' || event.kind === 'init' || event.kind === 'init-done') continue;
      const { object } = event;
      const key = formatObjectKey(keyOf(object));
      version = object.metadata.resourceVersion;
      const before = known.get(key);
      if (event.kind === 'deleted') {
        this.#listed?.keys.delete(key);
        // Known or not, handlers hear of it: the wakeup of a deletion must not depend on what the cache happens to hold.
        if (this.#isStale(before, object)) continue;
        wakeups.push(...this.#wake({ type: 'deleted', object }));
        known.delete(key);
        operations.set(key, { kind: 'D', key, version });
      } else {
        this.#listed?.keys.add(key);
        if (this.#isSeen(before, object)) continue;
        for (const change of changesOf(before?.object, object)) wakeups.push(...this.#wake(change));
        const entry = entryOf(object);
        known.set(key, { entry, object });
        operations.set(key, { kind: 'S', key, entry: encodeEntry(entry), object: encodeObject(object) });
      }
    }
    await this.#view.apply({
      ...this.#frame(),
      ...(this.#listed || version === undefined ? {} : { version }),
      operations: [...operations.values()],
      wakeups: mergeWakeups(wakeups),
    });
  }

  #frame(): { incomparable: boolean } {
    return { incomparable: this.#listed?.timeWentBackwards ?? false };
  }

  /** The cache has this state of the object, or a newer one. */
  #isSeen(before: Known | undefined, object: KubernetesObject): boolean {
    if (!before) return false;
    // After a restore of etcd a version may have been used twice, for different contents.
    if (this.#listed?.timeWentBackwards) return encodeObject(before.object) === encodeObject(object);
    return compareResourceVersions(object.metadata.resourceVersion, before.entry.resourceVersion) <= 0;
  }

  /** The cache holds something newer than this deletion: the object was made again. */
  #isStale(before: Known | undefined, object: KubernetesObject): boolean {
    if (!before || this.#listed?.timeWentBackwards) return false;
    return compareResourceVersions(object.metadata.resourceVersion, before.entry.resourceVersion) < 0;
  }

  #wake(change: Change): readonly Wakeup[] {
    this.#metrics.count('levelhook_cache_changes_total', {
      resource: formatKind(change.object),
      type: change.type,
    });
    return this.#listed?.silent ? [] : this.#handle(change);
  }

  async #known(keys: readonly string[]): Promise<Map<string, Known>> {
    const known = new Map<string, Known>();
    if (keys.length === 0) return known;
    const { entries, objects } = await this.#view.read(keys);
    keys.forEach((key, at) => {
      const entry = entries[at];
      const object = objects[at];
      if (entry && object) known.set(key, { entry: decodeEntry(entry), object: decodeObject(object) });
    });
    return known;
  }
}

function keysOf(events: readonly WatchEvent[]): string[] {
  const keys = new Set<string>();
  for (const event of events) if ('object' in event) keys.add(formatObjectKey(keyOf(event.object)));
  return [...keys];
}

function entryOf(object: KubernetesObject): ObjectEntry {
  const { resourceVersion, uid, deletionTimestamp } = object.metadata;
  return { resourceVersion, uid, terminating: deletionTimestamp !== undefined, indexEntries: indexEntriesOf(object) };
}

/** Another UID under the same name is another object: the old one was deleted while nobody looked. */
function changesOf(old: KubernetesObject | undefined, object: KubernetesObject): Change[] {
  if (!old) return [{ type: 'added', object }];
  if (old.metadata.uid === object.metadata.uid) return [{ type: 'updated', object, old }];
  return [
    { type: 'deleted', object: old },
    { type: 'added', object },
  ];
}
