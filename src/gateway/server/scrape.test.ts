import { expect, it } from 'vitest';
import { systemClock } from '../../core/index.ts';
import { Scrapes } from './scrape.ts';

it('fifty clients that ask all the time share one rendering a second, and none gets one that began before it asked', async () => {
  let nowMs = 0;
  const wake: (() => void)[] = [];
  const clock = {
    now: () => nowMs,
    sleep: (): Promise<void> => new Promise((resolve) => wake.push(resolve)),
  };
  let rendered = 0;
  let rendering = 0;
  const scrapes = new Scrapes(async () => {
    rendering += 1;
    expect(rendering).toBe(1);
    const text = String((rendered += 1));
    await systemClock.sleep(5);
    rendering -= 1;
    return text;
  }, clock);
  const answers: number[] = [];
  const over = new AbortController();
  const clients = Array.from({ length: 50 }, async () => {
    while (!over.signal.aborted) {
      const before = rendered;
      const answer = Number(await scrapes.text());
      expect(answer).toBeGreaterThan(before);
      answers.push(answer);
    }
  });
  for (let second = 1; second <= 5; second += 1) {
    await expect.poll(() => answers.length).toBe(50 * second);
    await expect.poll(() => wake.length).toBe(1);
    expect(rendered).toBe(second);
    if (second === 5) over.abort();
    nowMs += 1000;
    for (const each of wake.splice(0)) each();
  }
  await Promise.all(clients);
  expect(rendered).toBe(6);
});

it('a rendering that fails is told to its clients, and the next client gets another', async () => {
  let count = 0;
  const clock = { now: () => 0, sleep: async () => {} };
  const scrapes = new Scrapes(async () => {
    if ((count += 1) === 1) throw new Error('no metrics');
    return 'fine';
  }, clock);
  const both = await Promise.allSettled([scrapes.text(), scrapes.text()]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await scrapes.text()).toBe('fine');
  expect(count).toBe(2);
});
