import { describe, expect, it } from 'vitest';
import { type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

/** Whatever takes a job away, its key is still on record as queued. */
export function lostJobsContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a queued key whose job is gone', () => {
    it('is queued again within a minute', async () => {
      const { queue, process } = setting();
      const keys = numbered('k', 600);
      await queue.add(plain(...keys));
      await setting().loseJobs();
      await queue.start(process);
      await setting().pass(60_000);
      expect(process.keys().toSorted()).toEqual(keys.toSorted());
      expect(setting().takeTroubles().length).toBeGreaterThan(0);
      await setting().pass(60_000);
      expect(process.runs).toHaveLength(600);
    });

    it('runs again at once when it was touched while it ran, without a job', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      await setting().loseJobs();
      blocked.release();
      await setting().settle();
      expect(process.keys()).toEqual(['k', 'k']);
    });
  });

  it('a key that waits long for its turn is left alone', async () => {
    const { process } = setting();
    const queue = await setting().open({ concurrency: 1, timeoutMs: 200_000 });
    const blocked = setting().blockRuns('first');
    await queue.start(process);
    await queue.add(plain('first'));
    await setting().ran('first');
    await queue.add(plain('second', 'third'));
    await setting().pass(100_000);
    expect(await queue.inspector.levels()).toMatchObject({ sizes: { queued: 2, running: 1 } });
    blocked.release();
    await setting().atRest();
    expect(process.keys()).toEqual(['first', 'second', 'third']);
  });
}
