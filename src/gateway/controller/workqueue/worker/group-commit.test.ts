import { describe, expect, it } from 'vitest';
import { GroupCommit } from './group-commit.ts';

/** Doubles numbers; throws for a call that holds a 0. */
class Doubler {
  readonly calls: (readonly number[])[] = [];

  readonly commit = async (items: readonly number[]): Promise<number[]> => {
    this.calls.push(items);
    if (items.includes(0)) throw new Error('away');
    return items.map((item) => item * 2);
  };
}

const settled = async (answers: readonly Promise<number>[]): Promise<unknown[]> =>
  (await Promise.allSettled(answers)).map((each) => (each.status === 'fulfilled' ? each.value : 'failed'));

describe('a group commit', () => {
  it('commits what comes in one turn as one, up to its limit', async () => {
    const { calls, commit } = new Doubler();
    const group = new GroupCommit(commit, { limit: 2 });
    expect(await settled([group.submit(1), group.submit(2), group.submit(3)])).toEqual([2, 4, 6]);
    expect(calls).toEqual([[1, 2], [3]]);
  });

  it('fails all items of a call that fails, and goes on with the next', async () => {
    const { calls, commit } = new Doubler();
    const group = new GroupCommit(commit, { limit: 2 });
    expect(await settled([group.submit(1), group.submit(0), group.submit(3)])).toEqual(['failed', 'failed', 6]);
    expect(calls).toEqual([[1, 0], [3]]);
  });
});
