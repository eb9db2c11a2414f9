import type { ResourceVersion } from '../../../core/index.ts';
import { CHARACTERS_OF_ENTRY, type ObservedValues } from './observations.ts';
import { lengthOf, type Wakeup } from './change.ts';

/**
 * The cost of one script, in index entries of a short key, because a large script blocks Redis: one takes some 5 us.
 */
export const MAX_ENTRIES = 4000;
/** The memory that an index entry takes in Redis without its member, about: a SET of its own. */
const ENTRY_BYTES = 250;
/** The cost of other parts, in index entries: of an observed field, of an object's bytes, and of a wakeup. */
const OBSERVED_ENTRIES = 3;
/** So a script writes 2 MiB of objects: while it runs, it takes four times its bytes of Redis' memory. */
const BYTES_OF_ENTRY = 512;
const WAKEUP_ENTRIES = 0.6;

/** The cost of an object's index entries: each names a SET, and the object's key is a member of it. */
export function costOfEntries(key: string, entries: readonly string[]): number {
  return entries.reduce((sum, { length }) => sum + 1 + (key.length + length) / BYTES_OF_ENTRY, 0);
}

/** The memory that an object's index entries take in Redis, about. */
export function bytesOfEntries(key: string, entries: readonly string[]): number {
  return entries.reduce((sum, { length }) => sum + ENTRY_BYTES + key.length + length, 0);
}

/** The cost of an operation apart from its index entries, counted in index entries. */
export function costOf(operation: ViewOperation): number {
  if (operation.kind === 'D') return 1;
  const { object, observed = {} } = operation;
  const ofObserved = Object.values(observed).map(({ length }) => OBSERVED_ENTRIES + length / CHARACTERS_OF_ENTRY);
  return 1 + ofObserved.reduce((sum, each) => sum + each, 0) + object.length / BYTES_OF_ENTRY;
}

/** The same of wakeups. */
export function costOfWakeups(wakeups: readonly Wakeup[]): number {
  return wakeups.reduce((sum, wakeup) => sum + WAKEUP_ENTRIES + lengthOf(wakeup) / BYTES_OF_ENTRY, 0);
}

/** One operation of the apply script. */
export type ViewOperation =
  | {
      readonly kind: 'S';
      readonly key: string;
      readonly entry: string;
      readonly object: string | Buffer;
      /** Undefined when no field is observed. */
      readonly observed?: ObservedValues | undefined;
    }
  | { readonly kind: 'D'; readonly key: string; readonly version: ResourceVersion };

/** The changes that one call of the apply script makes. */
export interface Chunk {
  /** The view's new version. Default: the version stays. */
  readonly version?: ResourceVersion;
  /** With a new version: see `ViewState.shownMs`. Default: the time stays. */
  readonly shownMs?: number | undefined;
  /** Whether the versions cannot be compared with the stored versions, because the server's data was rewound. */
  readonly incomparable: boolean;
  /** A new incarnation, at the end of a list of rewound data: controllers that depend on the view queue all keys. */
  readonly incarnation?: string;
  /** Whether the view has none of the operations' keys. The script then compares nothing. Default: false. */
  readonly onlyNew?: boolean;
  /** At most one operation for each key. */
  readonly operations: readonly ViewOperation[];
  /** The controllers whose handlers were called with the operations. */
  readonly users: readonly string[];
  /** The controllers whose handlers have failed. The view records that they have missed a change. */
  readonly failed: readonly string[];
  readonly wakeups: readonly Wakeup[];
}
