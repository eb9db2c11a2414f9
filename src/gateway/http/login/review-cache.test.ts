import { beforeEach, describe, expect, it } from 'vitest';
import { ReviewCache } from './review-cache.ts';

let nowMs: number;
let asked: string[];
let cache: ReviewCache<string | undefined>;

beforeEach(() => {
  nowMs = 0;
  asked = [];
  cache = new ReviewCache({ clock: { now: () => nowMs }, keepMs: 10_000, maxEntries: 3 });
});

const get = (key: string, answer: string | undefined = key) =>
  cache.get(key, async () => {
    asked.push(key);
    return answer;
  });

describe('ReviewCache', () => {
  it('uses an answer for its time, and asks again afterwards', async () => {
    expect(await get('a')).toBe('a');
    nowMs = 9999;
    expect(await get('a', 'other')).toBe('a');
    nowMs = 10_000;
    expect(cache.last('a')).toBe('a');
    expect(await get('a', 'other')).toBe('other');
    expect(asked).toEqual(['a', 'a']);
  });

  it('keeps known answers however many unknown ones come', async () => {
    await get('ann');
    for (let at = 0; at < 20; at += 1) await cache.get(`guess-${at}`, async () => undefined);
    expect(cache.last('ann')).toBe('ann');
    expect(await get('ann', 'asked again')).toBe('ann');
    expect(await get('guess-19', 'asked again')).toBeUndefined();
    expect(await get('guess-0', 'asked again')).toBe('asked again');
  });

  it('keeps a refusal as long as an acceptance', async () => {
    const refusing = new ReviewCache<boolean>({
      clock: { now: () => nowMs },
      keepMs: 10,
      maxEntries: 3,
    });
    expect(await refusing.get('a', async () => false)).toBe(false);
    expect(await refusing.get('a', async () => true)).toBe(false);
    nowMs = 10;
    expect(await refusing.get('a', async () => true)).toBe(true);
  });

  it('asks once for all that wait for the same answer', async () => {
    expect(await Promise.all([get('a'), get('a'), get('a')])).toEqual(['a', 'a', 'a']);
    expect(asked).toEqual(['a']);
  });

  it('keeps no error', async () => {
    await expect(cache.get('a', () => Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(await get('a')).toBe('a');
  });

  it('is bounded: the answer that was not used for the longest time goes first', async () => {
    for (const key of ['a', 'b', 'c', 'a', 'd']) await get(key);
    asked = [];
    for (const key of ['a', 'c', 'd']) await get(key);
    expect(asked).toEqual([]);
    await get('b');
    expect(asked).toEqual(['b']);
  });
});
