import { beforeEach, describe, expect, it } from 'vitest';
import { LoginUnavailableError } from './identity.ts';
import { ReviewCache } from './review-cache.ts';

const ANN = { name: 'ann', isKnown: false };
const BOB = { name: 'bob', isKnown: false };
let nowMs: number;
let asked: string[];
let cache: ReviewCache<string | undefined>;

beforeEach(() => {
  nowMs = 0;
  asked = [];
  cache = new ReviewCache({ clock: { now: () => nowMs }, keepMs: 10_000, maxEntries: 3, maxPending: 4 });
});

const get = (key: string, answer: string | undefined = key) =>
  cache.get(key, ANN, async () => {
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
    for (let at = 0; at < 20; at += 1) await cache.get(`guess-${at}`, ANN, async () => undefined);
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
      maxPending: 2,
    });
    expect(await refusing.get('a', ANN, async () => false)).toBe(false);
    expect(await refusing.get('a', ANN, async () => true)).toBe(false);
    nowMs = 10;
    expect(await refusing.get('a', ANN, async () => true)).toBe(true);
  });

  it('asks once for all that wait for the same answer', async () => {
    expect(await Promise.all([get('a'), get('a'), get('a')])).toEqual(['a', 'a', 'a']);
    expect(asked).toEqual(['a']);
  });

  it('keeps no error', async () => {
    await expect(cache.get('a', ANN, () => Promise.reject(new Error('away')))).rejects.toThrow('away');
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

  it('asks a bounded number of questions at a time, half of them for one asker', async () => {
    const waiting = Promise.withResolvers<string>();
    const first = cache.get('a', ANN, () => waiting.promise);
    const second = cache.get('b', ANN, () => waiting.promise);
    await expect(get('c')).rejects.toThrow(LoginUnavailableError);
    expect(asked).toEqual([]);
    const other = cache.get('d', BOB, () => waiting.promise);
    waiting.resolve('done');
    expect(await Promise.all([first, second, other])).toEqual(['done', 'done', 'done']);
    expect(await get('c')).toBe('c');
  });
});
