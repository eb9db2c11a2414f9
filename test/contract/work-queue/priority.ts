import { describe, expect, it } from 'vitest';
import type { WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

/** Low keys neither stand in the way nor starve. */
export function priorityContract(create: CreateFixture): void {
  const setting = eachSetting(create);
  /** One run at a time, of a millisecond. */
  const slow = async (onRun: (key: string, queue: WorkQueue) => Promise<void>): Promise<WorkQueue> => {
    const { process, clock } = setting();
    const queue = await setting().open({ concurrency: 1 });
    process.onRun = async ({ key }) => {
      await onRun(key, queue);
      await clock.sleep(1);
      return done;
    };
    return queue;
  };

  describe('addLow', () => {
    it('puts low keys behind live ones that come later, but for one batch', async () => {
      const { process } = setting();
      const queue = await slow(async () => {});
      await queue.addLow(numbered('low', 900), 'initial');
      await queue.start(process);
      await setting().until(() => process.runs.length > 20, 'low keys running');
      const before = process.runs.length;
      await queue.add(plain('live'));
      await setting().ran('live');
      expect(process.keys().indexOf('live') - before).toBeLessThanOrEqual(200);
      await setting().atRest();
      expect(new Set(process.keys()).size).toBe(901);
    });

    it('runs low keys in the end though live ones never stop coming', async () => {
      const { process } = setting();
      const lows = ['low1', 'low2', 'low3'];
      const waiting = new Map<string, number>();
      let flooding = true;
      let count = 300;
      // Each live key is followed by another before its run ends, so 299 wait at any moment: there is never room.
      const queue = await slow(async (key) => {
        if (lows.includes(key)) waiting.set(key, (await queue.inspector.levels()).sizes.queued);
        else if (flooding) await queue.add(plain(`live${(count += 1)}`));
      });
      await queue.add(plain(...numbered('first', count)));
      await queue.addLow(lows, 'initial');
      await queue.start(process);
      await setting().until(() => waiting.size === 3, 'all low keys have run');
      flooding = false;
      for (const low of lows) expect(waiting.get(low)).toBeGreaterThanOrEqual(299);
      await setting().atRest();
    });

    it('gives added keys at least every other slot when runs are slow', async () => {
      const { process, clock } = setting();
      const queue = await setting().open({ concurrency: 1 });
      process.onRun = async () => {
        await clock.sleep(50);
        return done;
      };
      await queue.addLow(numbered('low', 40), 'initial');
      await queue.start(process);
      await setting().until(() => process.runs.length > 3, 'low keys running');
      await queue.add(plain('live1', 'live2', 'live3'));
      await setting().until(() => process.runsOf('live3').length > 0, 'live keys running');
      const lowsBefore = process.keys().slice(process.keys().indexOf('live1'), process.keys().indexOf('live3'));
      expect(lowsBefore.length).toBeLessThanOrEqual(6);
      expect(process.keys().indexOf('live1')).toBeLessThanOrEqual(8);
      await setting().atRest();
    });

    it('gives a low key that has no other reason the reason initial', async () => {
      const { queue, process } = setting();
      await queue.addLow(['k'], 'initial');
      await queue.start(process);
      await setting().atRest();
      expect(process.runs.map(({ reasons }) => reasons)).toEqual([[{ type: 'initial' }]]);
    });
  });
}
