import { describe, expect, it } from 'vitest';
import type { Finish, QueueLevels } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

const ONE = { offset: 0, limit: 1 };

/** A queue that stands still, or whose keys fail, says so by the age of its oldest key. */
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

  describe('for how long a key has been failing', () => {
    const failed: Finish = { kind: 'ended', failures: 'count', againAfterMs: 20_000 };
    const ages = async (): Promise<Pick<QueueLevels, 'oldestDueMs' | 'oldestFailingMs'>> => {
      const { oldestDueMs, oldestFailingMs } = await setting().queue.inspector.levels();
      return { oldestDueMs, oldestFailingMs };
    };
    const none = { oldestDueMs: undefined, oldestFailingMs: undefined };

    it.each<[string, Finish]>([
      ['a success', done],
      ['its last attempt, as a dead letter', { ...failed, dead: true }],
    ])('counts from its first failure through backoffs and further failures until %s', async (_, last) => {
      const { queue, process, clock } = setting();
      const outcomes = new Map<string, Finish>([['k', failed]]);
      process.onRun = ({ key }) => outcomes.get(key) ?? failed;
      await queue.start(process);
      expect(await ages()).toEqual(none);
      await queue.add(plain('k'));
      await setting().settle();
      const sinceMs = clock.now();
      for (const failures of [1, 2, 3]) {
        expect((await queue.inspector.status('k')).failures).toBe(failures);
        expect(await ages()).toEqual({ ...none, oldestFailingMs: clock.now() - sinceMs });
        expect((await queue.inspector.list('failing', ONE)).keys).toEqual([{ key: 'k', atMs: sinceMs }]);
        if (failures < 3) await setting().pass(20_000 + setting().lateMs);
      }
      await queue.add(plain('later'));
      await setting().settle();
      const laterMs = clock.now();
      await setting().pass(5000);
      expect(await ages()).toEqual({ ...none, oldestFailingMs: clock.now() - sinceMs });

      outcomes.set('k', last).set('later', done);
      await queue.add(plain('k'));
      await setting().settle();
      expect(await ages()).toEqual({ ...none, oldestFailingMs: clock.now() - laterMs });
      await queue.add(plain('later'));
      await setting().settle();
      expect(await ages()).toEqual(none);

      outcomes.set('k', failed);
      await queue.add(plain('k'));
      await setting().settle();
      expect(await ages()).toEqual({ ...none, oldestFailingMs: 0 });
    });

    it('counts while its next attempt runs, and while it is paused', async () => {
      const { queue, process, clock } = setting();
      process.onRun = () => failed;
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().settle();
      const sinceMs = clock.now();
      await setting().pass(5000);
      const blocked = setting().blockRuns('k');
      await queue.add(plain('k'));
      await setting().ran('k', 2);
      expect(await ages()).toEqual({ ...none, oldestFailingMs: clock.now() - sinceMs });
      await queue.pause('key/k');
      blocked.release(failed);
      await setting().pass(60_000);
      expect(process.runs).toHaveLength(2);
      expect(await ages()).toEqual({ ...none, oldestFailingMs: clock.now() - sinceMs });
    });
  });
}
