import { expect, test } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { ReadingTimes } from '../cache-api/reading-time.ts';
import { findKeys, type KeySearch } from './key-search.ts';

const ALL: KeySearch = { namespace: '', name: '' };
const time = new ReadingTimes(new InstantClock()).ofVisitor('ann');

/** A list of keys that counts how it is read. */
function listOf(total: number): { asked: number[]; queue: Parameters<typeof findKeys>[0] } {
  const asked: number[] = [];
  const nameOf = (at: number): string => `${at % 2 ? 'odd' : 'even'}/key-${at}`;
  return {
    asked,
    queue: {
      list: async (_, { offset, limit }) => {
        asked.push(limit);
        const count = Math.max(0, Math.min(limit, total - offset));
        return { total, keys: Array.from({ length: count }, (_, at) => ({ key: nameOf(offset + at), atMs: 0 })) };
      },
    },
  };
}

test('a page without a search reads no more than the page', async () => {
  const { asked, queue } = listOf(100_000);
  const found = await findKeys(queue, 'queued', { search: ALL, from: 50, limit: 50, time });
  expect(asked).toEqual([50]);
  expect(found).toMatchObject({ total: 100_000, next: 100 });
  expect(found.keys[0]?.key).toBe('even/key-50');
});

test('a search goes on where the page before ended, until it has seen every key once', async () => {
  const { queue } = listOf(2500);
  const search = { ...ALL, namespace: 'odd', name: '7' };
  const seen: string[] = [];
  let from: number | undefined = 0;
  while (from !== undefined) {
    const found: Awaited<ReturnType<typeof findKeys>> = await findKeys(queue, 'queued', {
      search,
      from,
      limit: 30,
      time,
    });
    seen.push(...found.keys.map(({ key }) => key));
    from = found.next;
  }
  const expected = Array.from({ length: 2500 }, (_, at) => at).filter((at) => at % 2 === 1 && `${at}`.includes('7'));
  expect(seen).toEqual(expected.map((at) => `odd/key-${at}`));
});

test('a search for nothing stops after 20,000 keys, in steps of 1,000, and says where to go on', async () => {
  const { asked, queue } = listOf(100_000);
  const found = await findKeys(queue, 'queued', { search: { ...ALL, name: 'none' }, from: 0, limit: 50, time });
  expect(found).toEqual({ keys: [], total: 100_000, looked: 20_000, next: 20_000 });
  expect(new Set(asked)).toEqual(new Set([1000]));
});

test('a search takes time of its visitor, and none of a tenant with such a name', async () => {
  const clock = new InstantClock();
  const times = new ReadingTimes(clock);
  const { asked, queue } = listOf(20_000);
  // A search of 20,000 keys takes at least 20 ms, and a visitor has two seconds at once.
  for (let at = 0; at < 120; at += 1) {
    const ofVisitor = times.ofVisitor('shop.ann');
    await findKeys(queue, 'queued', { search: { ...ALL, name: 'none' }, from: 0, limit: 50, time: ofVisitor });
  }
  expect(asked).toHaveLength(2400);
  expect(clock.sleeps).not.toEqual([]);
  expect(() => times.ofVisitor('shop.ann').check()).toThrow('take too much of the processor');
  times.ofVisitor('shop.ben').check();
  times.for('shop.web').check();
});
