import type { ResourceVersion } from '../../core/index.ts';
import type { ObservedValues } from './observations.ts';
import type { Wakeup } from './change.ts';

/** Index entries that one script writes and removes, because a large script blocks Redis: one takes some 5 us. */
export const MAX_ENTRIES = 4000;

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
