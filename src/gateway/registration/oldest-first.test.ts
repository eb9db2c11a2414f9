import { expect, it } from 'vitest';
import { OldestFirst } from './oldest-first.ts';

const object = (name: string, second: number) => ({ name, createdAt: `2026-01-01T00:00:0${second}Z` });

it('the oldest are within the limit, and of the same second the first by name', () => {
  const ages = new OldestFirst(2);
  const [a, b, c, d] = [object('a', 1), object('b', 0), object('c', 1), object('d', 2)];
  expect([c, d, a, b].map((each) => ages.add(each))).toEqual([undefined, undefined, d, c]);
  expect([a, b, c, d].map((each) => ages.isWithin(each))).toEqual([true, true, false, false]);
});

it('a deleted object within the limit makes room for the next one, and one beyond it does not', () => {
  const ages = new OldestFirst(1);
  const [a, b, c] = [object('a', 0), object('b', 1), object('c', 2)];
  for (const each of [a, b, c]) ages.add(each);
  expect(ages.delete(c)).toBeUndefined();
  expect(ages.delete(a)).toBe(b);
  expect(ages.delete(a)).toBeUndefined();
  expect(ages.isWithin(b)).toBe(true);
  expect(ages.delete(b)).toBeUndefined();
  expect(ages.size).toBe(0);
});

it('places each object by a few comparisons with others, however many there are', () => {
  let compared = 0;
  const ages = new OldestFirst<{ readonly name: string; readonly createdAt: string }>(50);
  const counted = (at: number) => ({
    name: `f${at}`,
    get createdAt() {
      compared += 1;
      return `2026-01-01T00:00:${at % 60}Z`;
    },
  });
  for (let at = 0; at < 10_000; at += 1) ages.add(counted(at));
  compared = 0;
  const last = counted(1);
  ages.add(last);
  ages.isWithin(last);
  ages.delete(last);
  // Four reads in a comparison at most, two searches of 14 steps.
  expect(compared).toBeLessThan(120);
});
