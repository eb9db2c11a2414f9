import { expect, it } from 'vitest';
import { SeenTriggers } from './seen-triggers.ts';

it('knows a trigger until its deadline, and no longer than a signature is good', () => {
  const seen = new SeenTriggers();
  expect(seen.add('a', 15_000, 0)).toBe('new');
  expect(seen.add('a', 15_000, 14_999)).toBe('seen');
  expect(seen.add('a', 15_000, 15_000)).toBe('new');
  expect(seen.add('b', 900_000, 0)).toBe('new');
  expect(seen.add('b', 900_000, 599_999)).toBe('seen');
  expect(seen.add('b', 900_000, 600_000)).toBe('new');
});

it('forgets none to make room, and takes others once the time of some is over', () => {
  const seen = new SeenTriggers(3);
  expect(seen.add('long', 60_000, 0)).toBe('new');
  expect(seen.add('a', 1000, 0)).toBe('new');
  expect(seen.add('b', 2000, 0)).toBe('new');
  expect(seen.add('c', 1000, 500)).toBe('full');
  for (const id of ['long', 'a', 'b']) expect(seen.add(id, 1000, 600)).toBe('seen');
  // It expires, but an entry that lasts longer is in front of it.
  expect(seen.add('c', 1000, 1600)).toBe('new');
  expect(seen.add('d', 1000, 1601)).toBe('full');
  expect(seen.add('long', 1000, 59_999)).toBe('seen');
});
