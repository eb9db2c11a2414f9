import { describe, expect, it } from 'vitest';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

/** A queue that stands still says so by the age of its oldest key. */
export function oldestDueContract(create: CreateFixture): void {
  const setting = eachSetting(create);
  const later = (ms: number): void => {
    const { clock } = setting();
    for (const end = clock.now() + ms; clock.now() < end;) clock.step(end);
  };

  describe('the age of the oldest key that is due', () => {
    it.each([
      ['added', () => setting().queue.add(plain('k'))],
      ['added as a low one', () => setting().queue.addLow(['k'], 'resync')],
      ['to run after a time that has passed', () => setting().queue.addAfter('k', 0)],
    ])('counts a key that was %s', async (_, add) => {
      const { queue, process } = setting();
      expect((await queue.inspector.levels()).oldestDueMs).toBeUndefined();
      await add();
      expect((await queue.inspector.levels()).oldestDueMs).toBe(0);
      later(5000);
      await queue.add(plain('l'));
      expect((await queue.inspector.levels()).oldestDueMs).toBe(5000);
      await queue.start(process);
      await setting().settle();
      await setting().atRest();
      expect((await queue.inspector.levels()).oldestDueMs).toBeUndefined();
    });

    it('is a stall only where no run starts although there is room for it', async () => {
      const { process } = setting();
      const queue = await setting().open({ concurrency: 1, timeoutMs: 200_000 });
      await queue.add(plain('first'));
      expect(await queue.stalledMs()).toBe(0);
      later(40_000);
      // No gateway takes keys out of it.
      expect(await queue.stalledMs()).toBe(40_000);
      const blocked = setting().blockRuns('first');
      await queue.start(process);
      await setting().ran('first');
      await queue.add(plain('second'));
      await setting().pass(60_000);
      // The one slot is taken: the queue is slow.
      expect([(await queue.inspector.levels()).oldestDueMs, await queue.stalledMs()]).toEqual([60_000, 0]);
      blocked.release();
      await setting().atRest();
      expect(await queue.stalledMs()).toBe(0);
    });

    it('counts a key that waits for a slot, however long, low ones and timers included', async () => {
      const { process } = setting();
      const queue = await setting().open({ concurrency: 1, timeoutMs: 200_000 });
      const blocked = setting().blockRuns('first');
      await queue.start(process);
      await queue.add(plain('first'));
      await setting().ran('first');
      await queue.addLow(['low'], 'resync');
      await queue.addAfter('timer', 0);
      await setting().pass(90_000);
      expect((await queue.inspector.levels()).oldestDueMs).toBe(90_000);
      blocked.release();
      await setting().atRest();
      expect((await queue.inspector.levels()).oldestDueMs).toBeUndefined();
    });

    it('leaves out keys that may not run: in flight, paused, behind a barrier, of a time to come', async () => {
      const { queue, process } = setting();
      process.unpassed.add('b');
      process.onRun = ({ key }) => (key === 'written' ? { ...done, barrier: 'b' } : done);
      await queue.pause('namespace/paused');
      await queue.start(process);
      await queue.add(plain('written'));
      await setting().ran('written');
      const { promise, resolve } = Promise.withResolvers<void>();
      process.onRun = async () => {
        await promise;
        return done;
      };
      await queue.add(plain('running', 'written', 'paused/k'));
      await queue.addLow(['paused/l'], 'resync');
      await queue.addAfter('later', 60_000);
      await setting().ran('running');
      await queue.add(plain('running'));
      await setting().pass(3000);
      // Behind a barrier a key is looked at again and again.
      expect((await queue.inspector.levels()).oldestDueMs ?? 0).toBeLessThanOrEqual(25);
      resolve();
      process.unpassed.clear();
      await queue.resume('namespace/paused');
      await setting().pass(61_000);
      const expected = ['later', 'paused/k', 'paused/l', 'running', 'running', 'written', 'written'];
      expect(process.keys().toSorted()).toEqual(expected);
    });
  });
}
