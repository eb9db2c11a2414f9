import { expect, it } from 'vitest';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import { ViewFreshness } from './view-freshness.ts';

/** A view of a quiet resource: a bookmark comes two seconds after it was asked for, as an apiserver sends it. */
function quietView(limits: ReadonlyMap<string, number>) {
  const clock = new InstantClock();
  const startedMs = clock.now();
  const stop = new AbortController();
  let shownMs: number | undefined = startedMs;
  let comesMs = Infinity;
  let oldestMs = 0;
  const asked: number[] = [];
  const view = {
    progress: async () => {
      if (clock.now() >= comesMs) [shownMs, comesMs] = [comesMs, Infinity];
      oldestMs = Math.max(oldestMs, clock.now() - (shownMs ?? 0));
      if (clock.now() - startedMs > 60_000) stop.abort();
      return { version: '1', incarnation: undefined, shownMs, rewound: false };
    },
  };
  const requestProgress = (): void => {
    if (comesMs === Infinity) asked.push(clock.now() - startedMs);
    comesMs = Math.min(comesMs, clock.now() + 2000);
  };
  const freshness = new ViewFreshness({ view, limits, requestProgress, clock, signal: stop.signal });
  return { freshness, stopped: stop.signal, asked, oldest: () => oldestMs, clock };
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

it('a quiet view stays younger than the smallest limit, and no bookmark is asked for too soon', async () => {
  const { freshness, stopped, asked, oldest } = quietView(
    new Map([
      ['a', 5000],
      ['b', 60_000],
    ]),
  );
  freshness.start();
  freshness.start();
  await untilAborted(stopped);
  expect(oldest()).toBeLessThanOrEqual(5000);
  expect(asked.length).toBeGreaterThan(5);
  const gaps = asked.slice(1).map((each, at) => each - (asked[at] ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(2500);
});

it('without a limit it asks for nothing and sleeps for nothing, and a limit starts it', async () => {
  const limits = new Map<string, number>();
  const { freshness, stopped, asked, clock } = quietView(limits);
  freshness.start();
  await new Promise((resolve) => setImmediate(resolve));
  expect(clock.sleeps).toEqual([]);
  limits.set('a', 8000);
  freshness.start();
  await untilAborted(stopped);
  expect(asked[0]).toBeGreaterThanOrEqual(4000);
  expect(asked[0]).toBeLessThan(7000);
});
