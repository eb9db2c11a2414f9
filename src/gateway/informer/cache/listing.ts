import { compareResourceVersions, type ResourceVersion } from '../../../core/index.ts';
import type { ObjectEntry } from '../../../contract/cache-layout.ts';

/**
 * A list that is being applied to a view, from its first object to its end. It collects the keys that the list names;
 * at the end every other object of the view is gone, unless a watch has written it since. An object that the cache has
 * newer than the list, or as another object in the same version, contradicts the list if the list's own version is not
 * below that: the server's data went back in time.
 */
export class Listing {
  /** Whether the server's data was rewound, so that its versions cannot be compared with the stored versions. */
  readonly rewound: boolean;
  /** The view's first list wakes no key: its controllers get all their keys when it is complete (`initial`). */
  readonly silent: boolean;
  /** The view had no object when the list began, so there is nothing to compare the list with. */
  readonly fromNothing: boolean;
  /** When it began, by the gateways' clock. Its objects come in no order of versions. */
  readonly sinceMs: number | undefined;
  readonly #keys = new Set<string>();
  /** The newest version of a cached object that the list contradicts. */
  #newestContradicted: ResourceVersion | undefined;

  constructor({ rewound = false, silent = false, fromNothing = false }, sinceMs?: number) {
    this.sinceMs = sinceMs;
    this.rewound = rewound;
    this.silent = silent;
    this.fromNothing = fromNothing;
  }

  /** The list names this key. */
  add(key: string): void {
    this.#keys.add(key);
  }

  /** Whether the list has named this key and the object was not deleted since. */
  names(key: string): boolean {
    return this.#keys.has(key);
  }

  /** The object was deleted after the list had named it. */
  delete(key: string): void {
    this.#keys.delete(key);
  }

  /**
   * Records the version of a cached object that the list contradicts: the list has the object in an older version, or
   * another object of the name in the same version, which one history of the server gives once. A list of rewound data
   * contradicts nothing.
   */
  recordContradiction(version: ResourceVersion): void {
    if (this.rewound) return;
    const newest = this.#newestContradicted;
    if (newest === undefined || compareResourceVersions(version, newest) > 0) this.#newestContradicted = version;
  }

  /** Whether an object of the view is gone, now that the list is complete at `version`. */
  isGone(key: string, entry: ObjectEntry, version: ResourceVersion): boolean {
    if (this.#keys.has(key)) return false;
    // A watch has written the object since the list, so it is newer than in the list.
    return this.rewound || compareResourceVersions(entry.resourceVersion, version) <= 0;
  }

  /**
   * Whether the list, complete at `version`, contradicts the cache, although it is newer: see `recordContradiction`.
   */
  isContradicted(version: ResourceVersion): boolean {
    return this.#newestContradicted !== undefined && compareResourceVersions(this.#newestContradicted, version) <= 0;
  }
}
