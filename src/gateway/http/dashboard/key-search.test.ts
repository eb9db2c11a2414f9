import { expect, test } from 'vitest';
import { findKeys, type KeySearch } from './key-search.ts';

const ALL: KeySearch = { namespace: '', name: '' };

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
  const found = await findKeys(queue, 'queued', { search: ALL, from: 50, limit: 50 });
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
    const found: Awaited<ReturnType<typeof findKeys>> = await findKeys(queue, 'queued', { search, from, limit: 30 });
    seen.push(...found.keys.map(({ key }) => key));
    from = found.next;
  }
  const expected = Array.from({ length: 2500 }, (_, at) => at).filter((at) => at % 2 === 1 && `${at}`.includes('7'));
  expect(seen).toEqual(expected.map((at) => `odd/key-${at}`));
});

test('a search for nothing stops after 20,000 keys, in steps of 1,000, and says where to go on', async () => {
  const { asked, queue } = listOf(100_000);
  const found = await findKeys(queue, 'queued', { search: { ...ALL, name: 'none' }, from: 0, limit: 50 });
  expect(found).toEqual({ keys: [], total: 100_000, looked: 20_000, next: 20_000 });
  expect(new Set(asked)).toEqual(new Set([1000]));
});
