import { expect, it } from 'vitest';
import { Scrapes } from './scrape.ts';

it.each([
  { tookMs: 4, restMs: 36 },
  { tookMs: 1270, restMs: 1000 },
])(
  'fifty clients that ask all the time share renderings of $tookMs ms with $restMs ms between, and none gets one that began before it asked',
  async ({ tookMs, restMs }) => {
    let nowMs = 0;
    const sleeps: number[] = [];
    const clock = {
      now: () => nowMs,
      sleep: async (ms: number) => {
        sleeps.push(ms);
        // All clients that are about to ask have asked.
        await new Promise(setImmediate);
        nowMs += ms;
      },
    };
    let rendered = 0;
    let rendering = 0;
    const scrapes = new Scrapes(async () => {
      rendering += 1;
      expect(rendering).toBe(1);
      const text = String((rendered += 1));
      await new Promise(setImmediate);
      nowMs += tookMs;
      rendering -= 1;
      return text;
    }, clock);
    let answers = 0;
    const clients = Array.from({ length: 50 }, async () => {
      for (let at = 0; at < 5; at += 1) {
        const before = rendered;
        expect(Number(await scrapes.text())).toBeGreaterThan(before);
        answers += 1;
      }
    });
    await Promise.all(clients);
    expect(answers).toBe(250);
    expect(rendered).toBe(5);
    expect(sleeps).toEqual(Array.from({ length: 4 }, () => restMs));
  },
);

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
