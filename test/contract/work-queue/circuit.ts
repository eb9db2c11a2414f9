import { describe, expect, it } from 'vitest';
import type { Finish, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done, type RecordingProcess } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

/** How many keys one gateway may start: where it has no room, other gateways start them. */
export function circuitContract(create: CreateFixture): void {
  const setting = eachSetting(create);
  /** One more gateway, with runs of its own. */
  async function openOther(): Promise<{ queue: WorkQueue; process: RecordingProcess }> {
    const other = { queue: await setting().open(), process: setting().newProcess() };
    await other.queue.start(other.process);
    return other;
  }

  describe('a gateway whose circuit is open', () => {
    it('starts nothing, however keys come; they start when it is closed', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      queue.allow(0);
      await queue.add(plain('added'));
      await queue.addLow(['low'], 'initial');
      await queue.addAfter('timer', 5);
      await setting().pass(50_000);
      expect(process.runs).toEqual([]);
      // What they wait for is an outage, in which the oldest grows old.
      expect([await queue.stalledMs(), (await queue.inspector.levels()).oldestDueMs]).toEqual([0, 50_000]);
      queue.allow(Infinity);
      await setting().atRest();
      expect(process.keys().toSorted()).toEqual(['added', 'low', 'timer']);
    });

    it('lets runs in flight end, and keeps back what they ask for', async () => {
      const { queue, process } = setting();
      const run = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      queue.allow(0);
      await queue.add(plain('k'));
      run.release({ kind: 'ended', failures: 'count', againAfterMs: 5 });
      await setting().pass(1000);
      expect(process.runs).toHaveLength(1);
      queue.allow(Infinity);
      await setting().atRest();
      expect(process.runs.map(({ failures }) => failures)).toEqual([0, 1]);
    });

    it('has as many runs in flight as it may, of those that it starts from then on', async () => {
      const { queue, process } = setting();
      const ends: ((finish: Finish) => void)[] = [];
      process.onRun = () => new Promise((resolve) => ends.push(resolve));
      await queue.start(process);
      await queue.add(plain('before'));
      await setting().ran('before');
      queue.allow(0);
      await queue.add(plain(...numbered('k', 60)));
      await queue.addLow(numbered('low', 60), 'initial');
      // The time alone opens nothing.
      await setting().pass(1000);
      expect(process.runs).toHaveLength(1);
      // The run of the time before takes none of the room.
      queue.allow(1);
      for (let runs = 2; runs <= 6; runs += 1) {
        await setting().pass(1000);
        expect(process.inFlight).toHaveLength(2);
        expect(process.runs).toHaveLength(runs);
        ends.at(-1)?.(done);
      }
      await setting().pass(1000);
      expect(process.inFlight).toHaveLength(2);
      queue.allow(0);
      for (const end of ends) end(done);
      await setting().pass(1990);
      expect(process.inFlight).toEqual([]);
      expect(process.runs).toHaveLength(7);
      queue.allow(2);
      await setting().pass(1000);
      expect(process.inFlight).toHaveLength(2);
      process.onRun = () => done;
      queue.allow(Infinity);
      for (const end of ends) end(done);
      await setting().atRest();
      expect(process.runs).toHaveLength(121);
    });

    it('has room for another key when the one that it tried could not run', async () => {
      const { queue, process } = setting();
      await queue.pause('namespace/paused');
      await queue.start(process);
      queue.allow(1);
      await queue.add(plain(...numbered('paused/', 60), 'k'));
      await setting().ran('k');
      queue.allow(Infinity);
      await queue.resume('namespace/paused');
      await setting().atRest();
      expect(process.runs).toHaveLength(61);
    });

    it('leaves all keys to another gateway, also those of jobs that it had taken', async () => {
      const { queue, process } = setting();
      const blocked: (() => void)[] = [];
      process.onRun = () => new Promise((resolve) => blocked.push(() => resolve(done)));
      await queue.start(process);
      const keys = numbered('k', 200);
      await queue.add(plain(...keys));
      await setting().until(() => blocked.length === 4, 'every slot taken');
      const other = await openOther();
      queue.allow(0);
      for (const end of blocked) end();
      await queue.addLow(numbered('low', 50), 'initial');
      await queue.addAfter('timer', 5);
      await setting().atRest();
      expect(process.runs).toHaveLength(4);
      expect(other.process.runs).toHaveLength(200 - 4 + 50 + 1);
      queue.allow(Infinity);
      other.queue.allow(0);
      process.onRun = () => done;
      await other.queue.add(plain('back'));
      await setting().atRest();
      expect(process.runsOf('back')).toHaveLength(1);
    });

    it('gives a key whose run got no answer to the gateway that is free', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'ended', failures: 'count', againAfterMs: 5, elsewhere: true });
      await queue.start(process);
      const other = await openOther();
      await queue.add(plain('k'));
      await setting().until(() => other.process.runs.length > 0, 'a run of the other gateway');
      // It may take its own job. Without the rule it starts the key some 900 times before another gateway looks.
      expect(process.runs.length).toBeLessThan(40);
      expect(other.process.runsOf('k')[0]?.failures).toBe(process.runs.length);
    });

    it('is not opened by the end of a suspension, nor the reverse', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      queue.suspend();
      queue.allow(0);
      await queue.add(plain('k'));
      queue.unsuspend();
      await setting().pass(1000);
      expect(process.runs).toEqual([]);
      queue.suspend();
      queue.allow(Infinity);
      await setting().wait();
      expect(process.runs).toEqual([]);
      queue.allow(1);
      await setting().wait();
      expect(process.runs).toEqual([]);
      queue.unsuspend();
      await setting().ran('k');
      queue.allow(Infinity);
      await setting().atRest();
    });

    it('settles a run whose deadline has passed', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      blocked.release({ kind: 'unknown' });
      queue.allow(0);
      await setting().pass(30_000);
      expect(process.losses).toMatchObject([{ key: 'k' }]);
      expect(process.runs).toHaveLength(1);
      queue.allow(Infinity);
      await setting().atRest();
      expect(process.runs.map(({ failures }) => failures)).toEqual([0, 1]);
    });

    it('stops as ever, and leaves its keys to the next gateway', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      queue.allow(0);
      await queue.add(plain('k', 'l'));
      await queue.stop(1000);
      const next = await openOther();
      await setting().atRest();
      expect(process.runs).toEqual([]);
      expect(next.process.keys().toSorted()).toEqual(['k', 'l']);
    });

    it('has some time to start keys once it may, before they stand still', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      queue.allow(0);
      await queue.add(plain('k'));
      await setting().pass(50_000);
      expect(await queue.stalledMs()).toBe(0);
      // No gateway takes keys out of it.
      queue.suspend();
      queue.allow(Infinity);
      expect(await queue.stalledMs()).toBe(0);
      setting().clock.step(setting().clock.now() + 7000);
      expect(await queue.stalledMs()).toBe(7000);
      queue.unsuspend();
      await setting().atRest();
    });
  });
}
