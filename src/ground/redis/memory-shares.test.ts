import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mostBeyondShare } from './memory-shares.ts';

const holdings = fc
  .array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 30 })
  .map((all) => new Map(all.map((bytes, at) => [`n${at}`, bytes])));
const shortages = fc.integer({ min: 1, max: 500 });
const leastShares = fc.integer({ min: 0, max: 200 });

describe('the namespaces that hold most beyond their share', () => {
  it('are the one that holds nearly all, and none of the others', () => {
    const all = new Map([['large', 190], ...Array.from({ length: 20 }, (_, at) => [`n${at}`, 1] as const)]);
    expect(mostBeyondShare(all, 1, 12)).toEqual(new Map([['large', 178]]));
    expect(mostBeyondShare(all, 60, 12)).toEqual(new Map([['large', 178]]));
  });

  it('are none where no one holds much: others take the memory then', () => {
    expect(
      mostBeyondShare(
        new Map([
          ['a', 10],
          ['b', 9],
        ]),
        100,
        12,
      ),
    ).toEqual(new Map());
    expect(mostBeyondShare(new Map(), 100, 12)).toEqual(new Map());
  });

  it('never hold less than a namespace that is served, nor less than the least share', () => {
    fc.assert(
      fc.property(holdings, shortages, leastShares, (all, shortage, least) => {
        const found = mostBeyondShare(all, shortage, least);
        const left = [...all].filter(([name]) => found.has(name)).map(([, bytes]) => bytes);
        const served = [...all].filter(([name]) => !found.has(name)).map(([, bytes]) => bytes);
        expect(Math.min(...left)).toBeGreaterThanOrEqual(Math.max(0, ...served));
        expect(Math.min(...left)).toBeGreaterThan(least);
      }),
    );
  });

  it('are no more than the shortage takes: without the smallest of them, the others hold less than it beyond', () => {
    fc.assert(
      fc.property(holdings, shortages, (all, shortage) => {
        const found = mostBeyondShare(all, shortage, 0);
        const total = [...all.values()].reduce((sum, each) => sum + each, 0);
        const share = Math.max(0, (total - shortage) / all.size);
        for (const [name, excess] of found) expect(excess).toBe((all.get(name) ?? 0) - share);
        const beyond = [...found.values()].slice(0, -1);
        expect(beyond.reduce((sum, each) => sum + each, 0)).toBeLessThan(shortage);
      }),
    );
  });
});
