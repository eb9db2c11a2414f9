import { expect, test } from 'vitest';
import type { PastRun } from '../../controller/workqueue/work-queue.ts';
import { KeyRuns } from './key-runs.ts';

const run = (number: number): PastRun => ({ outcome: 'done', key: 'a/b', run: number, atMs: number });

test('later looks at a key read what has come since, and show each run once', async () => {
  const all: PastRun[] = [];
  let wholeReads = 0;
  const history: Parameters<KeyRuns['of']>[1] = {
    runs: async ({ limit, after, key }) => {
      const from = after === undefined ? 0 : Number(after);
      const found = key === undefined ? all : all.slice(from);
      return { runs: found.toReversed().slice(0, limit), ...(all.length > 0 ? { newest: `${all.length}` } : {}) };
    },
    runsOf: async () => {
      wholeReads += 1;
      return all.toReversed().slice(0, 10);
    },
  };
  const runs = new KeyRuns();
  const numbers = async (): Promise<number[]> => (await runs.of('web', history, 'a/b')).map((each) => each.run);
  expect(await numbers()).toEqual([]);
  for (let number = 1; number <= 12; number += 1) all.push(run(number));
  expect(await numbers()).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  expect(wholeReads).toBe(2);
  expect(await numbers()).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  all.push(run(13));
  expect(await numbers()).toEqual([13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
  expect(wholeReads).toBe(2);
  all.length = 0;
  expect(await numbers()).toEqual([]);
  expect(wholeReads).toBe(3);
});
