import type { ChangeHandler } from '../../src/gateway/cache/change.ts';

/** Wakes nobody: for tests of what is written, not of who hears of it. */
export const deaf: ChangeHandler = { needsOld: () => false, handle: () => [] };
