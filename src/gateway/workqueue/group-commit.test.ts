import { describe, expect, it } from 'vitest';
import { GroupCommit } from './group-commit.ts';

class OwnError extends Error {}

/** Doubles numbers; throws for a call that holds a negative one, or a 0. */
class Doubler {
  readonly calls: (readonly number[])[] = [];

  readonly commit = async (items: readonly number[]): Promise<number[]> => {
    this.calls.push(items);
    if (items.includes(0)) throw new Error('away');
    if (items.some((item) => item < 0)) throw new OwnError('negative');
    return items.map((item) => item * 2);
  };
}

const settled = async (answers: readonly Promise<number>[]): Promise<unknown[]> =>
  (await Promise.allSettled(answers)).map((each) => (each.status === 'fulfilled' ? each.value : 'failed'));

describe('a group commit', () => {
  const isAboutOneItem = (error: unknown): boolean => error instanceof OwnError;

  it('commits what comes in one turn as one, up to its limit', async () => {
    const { calls, commit } = new Doubler();
    const group = new GroupCommit(commit, { limit: 2 });
    expect(await settled([group.submit(1), group.submit(2), group.submit(3)])).toEqual([2, 4, 6]);
    expect(calls).toEqual([[1, 2], [3]]);
  });

  it('lets one bad item fail alone', async () => {
    const { calls, commit } = new Doubler();
    const group = new GroupCommit(commit, { isAboutOneItem });
    expect(await settled([group.submit(1), group.submit(-1), group.submit(3)])).toEqual([2, 'failed', 6]);
    expect(calls).toEqual([[1, -1, 3], [1], [-1], [3]]);
  });

  it('fails as one for anything else, and does not repeat a call that need not bear it', async () => {
    const away = new Doubler();
    const group = new GroupCommit(away.commit, { isAboutOneItem });
    expect(await settled([group.submit(1), group.submit(0)])).toEqual(['failed', 'failed']);
    const once = new Doubler();
    const plain = new GroupCommit(once.commit);
    expect(await settled([plain.submit(1), plain.submit(-1)])).toEqual(['failed', 'failed']);
    expect([away.calls, once.calls]).toEqual([[[1, 0]], [[1, -1]]]);
  });
});
