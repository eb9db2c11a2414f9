/**
 * What is to run now: gives each key that was added to one of the queue's gateways, as many at a time as the queue's
 * concurrency allows. A key that waits is given once; one that is added while it is out is given once more.
 */
export interface Jobs {
  /** Resolves when they cannot be lost any more. */
  add(keys: readonly string[]): Promise<void>;
  /** Which of these keys it neither has nor has given out, so that an add is due. */
  missing(keys: readonly string[]): Promise<readonly string[]>;
  /**
   * Begins to give keys to `work`, which does not throw. A key is out until its promise ends: one that never does is
   * given to another gateway after a `close` by force.
   */
  start(work: (key: string) => Promise<void>): Promise<void>;
  /** Gives nothing to this gateway until `resume`; one or two may still come. Does not wait for anything. */
  pause(): void;
  resume(): void;
  /** @param force do not wait for keys that are out: they are given to somebody else, later. */
  close(force: boolean): Promise<void>;
  /** Keys that wait to be given. */
  waiting(): Promise<number>;
}
