import { expect, it } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { ViewFreshness } from './view-freshness.ts';

/** A minute of a view whose resource does not change, in a cluster with or without other writes. */
function quietView(limits: ReadonlyMap<string, number>, { others = true, history = 0, frozen = false } = {}) {
  const clock = new InstantClock();
  const startedMs = clock.now();
  const stop = new AbortController();
  const ended = Promise.withResolvers<void>();
  let shownMs = startedMs;
  let version = 100 + history;
  let comesMs = Infinity;
  let oldestMs = 0;
  const asked: number[] = [];
  const view = {
    progress: async () => {
      // A bookmark comes two seconds after it was asked for, of the version of then.
      if (clock.now() >= comesMs) [shownMs, comesMs, version] = [comesMs, Infinity, serverVersion()];
      oldestMs = Math.max(oldestMs, clock.now() - shownMs);
      if (clock.now() - startedMs > 60_000) {
        stop.abort();
        ended.resolve();
      }
      return { version: String(version), incarnation: undefined, shownMs, rewound: false };
    },
    recordShown: async (ms: number) => {
      shownMs = ms;
    },
  };
  const serverVersion = (): number => 100 + (others ? Math.floor((clock.now() - startedMs) / 100) : 0);
  const requestProgress = (): void => {
    if (comesMs === Infinity) asked.push(clock.now() - startedMs);
    comesMs = Math.min(comesMs, clock.now() + 2000);
  };
  const freshness = new ViewFreshness({
    record: view,
    limits,
    currentVersion: async () => String(serverVersion()),
    requestProgress,
    isFrozen: () => frozen,
    clock,
    signal: stop.signal,
  });
  return { freshness, ended: ended.promise, asked, oldest: () => oldestMs, clock };
}

const limits = new Map([
  ['a', 5000],
  ['b', 60_000],
]);

it('a quiet view in a busy cluster stays younger than the smallest limit by bookmarks, asked for not too often', async () => {
  const { freshness, ended, asked, oldest } = quietView(limits);
  freshness.start();
  freshness.start();
  await ended;
  expect(oldest()).toBeLessThanOrEqual(5000);
  expect(asked.length).toBeGreaterThan(5);
  const gaps = asked.slice(1).map((each, at) => each - (asked[at] ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(2500);
});

it('where nothing is written at all, the version of the server tells that the view is up to date', async () => {
  const { freshness, ended, asked, oldest } = quietView(limits, { others: false });
  freshness.start();
  await ended;
  expect(oldest()).toBeLessThanOrEqual(5000);
  expect(asked).toEqual([]);
});

it('a view that may have lost data grows old', async () => {
  const { freshness, ended, oldest } = quietView(limits, { others: false, frozen: true });
  freshness.start();
  await ended;
  expect(oldest()).toBeGreaterThan(59_000);
});

it('a view that is ahead of the server is not taken for up to date', async () => {
  const { freshness, ended, asked } = quietView(limits, { others: false, history: 50 });
  freshness.start();
  await ended;
  expect(asked).toHaveLength(1);
});

it('without a limit it asks for nothing and sleeps for nothing, and a limit starts it', async () => {
  const later = new Map<string, number>();
  const { freshness, ended, asked, clock } = quietView(later);
  freshness.start();
  await new Promise((resolve) => setImmediate(resolve));
  expect(clock.sleeps).toEqual([]);
  later.set('a', 8000);
  freshness.start();
  await ended;
  expect(asked[0]).toBeGreaterThanOrEqual(4000);
  expect(asked[0]).toBeLessThan(7000);
});
