import { vi } from 'vitest';

/** A time that no test takes: see `holdTimers`. */
export const HELD_MS = 3_600_000;

/**
 * Holds the timers of `HELD_MS` that are set from now on, also those that began a little later and are shorter by that.
 * All others go on, those of libraries among them. Ends with `vi.restoreAllMocks`.
 * @returns calls what is held, as if its time had passed.
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
