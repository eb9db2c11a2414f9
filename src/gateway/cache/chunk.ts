import type { ResourceVersion } from '../../core/index.ts';
import type { Wakeup } from './change.ts';

/** One operation of the apply script. */
export type ViewOperation =
  | { readonly kind: 'S'; readonly key: string; readonly entry: string; readonly object: string | Buffer }
  | { readonly kind: 'D'; readonly key: string; readonly version: ResourceVersion };

/** What one run of the apply script does. */
export interface Chunk {
  /** Where the view's version moves to; absent: it stays. */
  readonly version?: ResourceVersion;
  /** Versions cannot be compared with those stored. */
  readonly incomparable: boolean;
  /** Ends a list of data that went back in time: controllers that depend on the view start over. */
  readonly incarnation?: string;
  /** None of the operations' keys is in the view: then nothing stored is compared. Default: they may be. */
  readonly onlyNew?: boolean;
  /** Each key once. */
  readonly operations: readonly ViewOperation[];
  /** Whose handlers have been asked about the operations. */
  readonly users: readonly string[];
  /** Those whose handlers have failed: they are counted as having missed something. */
  readonly failed: readonly string[];
  readonly wakeups: readonly Wakeup[];
}
