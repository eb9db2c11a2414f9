import { describe, expect, it } from 'vitest';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

/** Runs whose end was not reported: unknown ones, and those that go on without us. */
export function unknownContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a run without an outcome', () => {
    it('is settled after its deadline and a margin, and its key rests until then', async () => {
      const { process } = setting();
      const queue = await setting().open({ timeoutMs: 300 });
      process.onRun = () => (process.runs.length === 1 ? { kind: 'unknown' } : { ...done, failures: 'keep' });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      const [first] = process.runs;
      await queue.add(plain('k'));
      await setting().ran('k', 2);
      expect(process.losses).toMatchObject([{ key: 'k', run: first?.run, failures: 0 }]);
      expect(process.losses[0]?.atMs).toBeGreaterThanOrEqual((first?.deadlineMs ?? 0) + 1000);
      expect(process.losses[0]?.atMs).toBeLessThan((first?.deadlineMs ?? 0) + 1100);
      expect(process.runs[1]?.failures).toBe(1);
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
      expect(await queue.history.runsOf('k')).toMatchObject([
        { outcome: 'deferred', attempt: 2 },
        { outcome: 'lost', attempt: 1, error: 'no outcome before the deadline' },
        { outcome: 'unknown', attempt: 1 },
      ]);
    });

    it('is settled once, however long that takes', async () => {
      const { process } = setting();
      const queue = await setting().open({ timeoutMs: 300 });
      process.onRun = () => (process.runs.length === 1 ? { kind: 'unknown' } : done);
      const { promise: settled, resolve } = Promise.withResolvers<void>();
      process.onLost = async () => (await settled, { kind: 'ended', failures: 'count', againAfterMs: 0 });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      // The poller finds it again each 5 s.
      await setting().pass(22_000);
      expect(process.losses).toHaveLength(1);
      resolve();
      await setting().ran('k', 2);
      await setting().atRest();
      expect(process.losses).toHaveLength(1);
    });

    it('keeps why in the history of its key, once it is settled', async () => {
      const { process } = setting();
      const queue = await setting().open({ timeoutMs: 300 });
      const error = `not JSON ${'x'.repeat(2000)}`;
      process.onRun = () => (process.runs.length === 1 ? { kind: 'unknown', error } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k', 2);
      await setting().atRest();
      const [success, failure] = await queue.history.runsOf('k');
      expect(success?.error).toBeUndefined();
      expect(failure).toMatchObject({ run: process.runs[0]?.run, error: `${error.slice(0, 1021)}…` });
    });
  });

  describe('a busy run', () => {
    const start = async () => {
      const { queue, process, clock } = setting();
      const untilMs = clock.now() + 60_000;
      process.onRun = () => (process.runs.length === 1 ? { kind: 'accepted', untilMs } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await setting().settle();
      return { queue, process, untilMs, run: process.runs[0]?.run ?? 0 };
    };

    it('occupies its key and no slot, until its outcome comes', async () => {
      const { queue, process, untilMs, run } = await start();
      expect(await queue.inspector.status('k')).toMatchObject({
        running: { run, deadlineMs: untilMs },
        waits: [{ reason: 'busy', untilMs }],
      });
      await queue.add(plain('k', 'l', 'm', 'n', 'o', 'p'));
      await setting().pass(30_000);
      expect(process.keys().toSorted()).toEqual(['k', 'l', 'm', 'n', 'o', 'p']);
      expect(await queue.settle('k', run, done)).toBe(true);
      await setting().atRest();
      expect(process.runsOf('k')).toHaveLength(2);
      expect(process.losses).toEqual([]);
    });

    it('is lost when its outcome does not come in time, and a later one is refused', async () => {
      const { queue, process, untilMs, run } = await start();
      await setting().pass(60_500);
      expect(process.losses).toEqual([]);
      await setting().ran('k', 2);
      expect(process.losses[0]?.atMs).toBeGreaterThanOrEqual(untilMs + 1000);
      expect(await queue.settle('k', run, { kind: 'ended', failures: 'count', againAfterMs: 0 })).toBe(false);
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('can be given more time and never less, and none once it counts as lost', async () => {
      const { queue, process, untilMs, run } = await start();
      const deadline = async () => (await queue.inspector.status('k')).running?.deadlineMs;
      expect(await queue.settle('k', run, { kind: 'accepted', untilMs: untilMs - 1000 })).toBe(true);
      expect(await deadline()).toBe(untilMs);
      expect(await queue.settle('k', run, { kind: 'accepted', untilMs: untilMs + 60_000 })).toBe(true);
      expect(await deadline()).toBe(untilMs + 60_000);
      await setting().pass(100_000);
      expect(process.runs).toHaveLength(1);
      let late: boolean | undefined;
      process.lost = async (given) => {
        late = await queue.settle('k', run, { kind: 'accepted', untilMs: untilMs + 500_000 });
        return RecordingProcess.prototype.lost.call(process, given);
      };
      await setting().pass(22_000);
      await setting().ran('k', 2);
      expect(late).toBe(false);
      await setting().atRest();
    });

    it('refuses the outcome of a run that is not in flight', async () => {
      const { queue, run } = await start();
      expect(await queue.settle('k', run + 1, done)).toBe(false);
      expect(await queue.settle('other', run, done)).toBe(false);
      expect(await queue.settle('k', run, done)).toBe(true);
      expect(await queue.settle('k', run, done)).toBe(false);
      await setting().atRest();
    });
  });
}
