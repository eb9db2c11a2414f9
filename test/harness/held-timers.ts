import { vi } from 'vitest';

/** A time that no test takes: see `holdTimers`. */
export const HELD_MS = 3_600_000;

/**
 * Holds all timers of about `HELD_MS` that are set from now on; shorter ones run as usual, also those of libraries.
 * `vi.restoreAllMocks` ends it.
 * @returns a function that calls the held callbacks, as if their time had passed.
 */
export function holdTimers(): () => void {
  const { setTimeout: start } = globalThis;
  const held: (() => void)[] = [];
  const hold = (callback: () => void, ms?: number): NodeJS.Timeout => {
    if (ms === undefined || ms < HELD_MS / 2) return start(callback, ms);
    held.push(callback);
    return start(() => {}, ms).unref();
  };
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(hold);
  return () => {
    for (const callback of held.splice(0)) callback();
  };
}
