import type { Clock } from '../../../core/index.ts';

/** All visitors share samples and summaries that are younger. */
const FRESH_MS = 1000;

/** The last result while it is young, which all visitors share. */
export function recent<T>(clock: Pick<Clock, 'now'>, read: () => Promise<T>): () => Promise<T> {
  let latest: { readonly atMs: number; readonly result: Promise<T> } | undefined;
  return () => {
    const now = clock.now();
    if (latest && now - latest.atMs < FRESH_MS) return latest.result;
    const mine = { atMs: now, result: read() };
    latest = mine;
    mine.result.catch(() => {
      if (latest === mine) latest = undefined;
    });
    return mine.result;
  };
}
