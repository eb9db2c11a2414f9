import { expect, it } from 'vitest';
import { threadMs, TimeSlice } from './time-slice.ts';

/** Blocks the thread, as parsing one large object does: for this processor time, however busy the machine is. */
function work(ms: number): void {
  const end = threadMs() + ms;
  while (threadMs() < end);
}

it('leaves the thread to others after each long slice for as long as it took, however many have them', async () => {
  const slices: { from: number; to: number }[] = [];
  const user = async (ms: number): Promise<void> => {
    const slice = new TimeSlice();
    for (let at = 0; at < 3; at += 1) {
      const from = performance.now();
      work(ms);
      slices.push({ from, to: performance.now() });
      await slice.next();
    }
  };
  // The first slices have nothing to wait for.
  await Promise.all([user(25), user(30), user(35)]);
  expect(slices).toHaveLength(9);
  for (const [at, { from }] of slices.entries()) {
    const before = slices[at - 1];
    if (!before || at < 3) continue;
    // A timer counts in whole milliseconds.
    expect(from - before.to).toBeGreaterThan(23);
  }
});

it('does not keep short slices waiting for the rest after a long one', async () => {
  const ends: string[] = [];
  const user = async (name: string, ms: number): Promise<void> => {
    const slice = new TimeSlice();
    work(ms);
    await slice.next();
    ends.push(name);
  };
  await Promise.all([user('long', 40), user('longer', 60), user('short', 0)]);
  expect(ends).toEqual(['short', 'long', 'longer']);
});

it('lets the tenants rest in turn', async () => {
  const ends: string[] = [];
  const user = async (tenant: string, name: string): Promise<void> => {
    const slice = new TimeSlice(tenant);
    work(45);
    await slice.next();
    ends.push(name);
  };
  const many = ['one', 'two', 'three', 'four', 'five'].map((name) => user('many.', name));
  await Promise.all([...many, user('other.', 'another tenant')]);
  expect(ends).toEqual(['one', 'two', 'another tenant', 'three', 'four', 'five']);
});

it('does not take a slice for a long one because other programs had the processor meanwhile', async () => {
  const ends: string[] = [];
  const long = async (): Promise<void> => {
    const slice = new TimeSlice();
    work(60);
    await slice.next();
    ends.push('long');
  };
  const starved = async (): Promise<void> => {
    const slice = new TimeSlice();
    // By the clock it is as long, without processor time.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
    await slice.next();
    ends.push('starved');
  };
  await Promise.all([long(), starved()]);
  expect(ends).toEqual(['starved', 'long']);
});
