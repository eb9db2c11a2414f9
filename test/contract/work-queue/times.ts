import { describe, expect, it } from 'vitest';
import { keyBackoffMs } from '../../../src/gateway/controller/workqueue/rate-limiter.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

/** Everything comes at its time at the earliest, and this much later at the latest. */
const LATE_MS = 10;

/** client-go's delaying queue and its rate limiter. */
export function timesContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('addAfter', () => {
    it.each([
      [60_000, 150],
      [150, 60_000],
    ])('keeps the earliest of two times (%d ms, then %d ms), and a run ends the wait', async (first, second) => {
      const { queue, process, clock } = setting();
      await queue.start(process);
      const from = clock.now();
      await queue.addAfter('k', first);
      await queue.addAfter('k', second);
      await setting().ran('k');
      expect(process.startedAtMs[0]).toBeGreaterThanOrEqual(from + 150);
      expect(process.startedAtMs[0]).toBeLessThanOrEqual(from + 150 + LATE_MS);
      await setting().pass(65_000);
      expect(process.runs).toHaveLength(1);
    });

    it('takes a time that has passed for now', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.addAfter('k', -5);
      await setting().pass(LATE_MS);
      expect(process.keys()).toEqual(['k']);
    });

    it('lets an added key run at once, and forgets its time', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.addAfter('k', 60_000);
      await queue.add(plain('k'));
      await setting().settle();
      expect(process.keys()).toEqual(['k']);
      await setting().pass(61_000);
      expect(process.keys()).toEqual(['k']);
    });

    it('runs a key again after the time that its run asked for', async () => {
      const { queue, process } = setting();
      process.onRun = () =>
        process.runs.length === 1 ? { kind: 'ended', failures: 'forget', againAfterMs: 200 } : done;
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().atRest();
      const [first = 0, second = 0, ...more] = process.startedAtMs;
      expect(second - first).toBeGreaterThanOrEqual(200);
      expect(second - first).toBeLessThanOrEqual(200 + LATE_MS);
      expect(more).toEqual([]);
    });

    it('runs a key that was touched while it ran before the time that its run asked for', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      blocked.release({ kind: 'ended', failures: 'forget', againAfterMs: 60_000 });
      await setting().pass(LATE_MS);
      expect(process.runs).toHaveLength(2);
      expect(await setting().pending()).toBe(0);
    });

    it('backs off from 5 ms to 1000 s, each time at its time', async () => {
      const { queue, process } = setting();
      process.onRun = ({ failures }) =>
        failures < 19 ? { kind: 'ended', failures: 'count', againAfterMs: keyBackoffMs(failures + 1) } : done;
      await queue.start(process);
      await queue.add(plain('k'));
      for (let failures = 1; failures < 20; failures += 1) await setting().pass(keyBackoffMs(failures) + LATE_MS);
      expect(process.runs).toHaveLength(20);
      process.startedAtMs.slice(1).forEach((startedAtMs, at) => {
        const waitedMs = startedAtMs - (process.startedAtMs[at] ?? 0);
        expect(waitedMs).toBeGreaterThanOrEqual(keyBackoffMs(at + 1));
        expect(waitedMs).toBeLessThanOrEqual(keyBackoffMs(at + 1) + LATE_MS);
      });
    });
  });
}
