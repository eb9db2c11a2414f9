import { describe, expect, it } from 'vitest';
import type { Finish } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { eventually } from '../../harness/eventually.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

/** Start, pause, stop, and what can be asked of a queue. */
export function lifecycleContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a gateway on the queue', () => {
    it('starts nothing while paused, lets runs go on, and starts all after resume', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      queue.suspend();
      queue.suspend();
      await queue.add(plain('k', 'l'));
      await queue.addLow(['m'], 'initial');
      await queue.addAfter('n', 0);
      blocked.release();
      await setting().wait();
      expect(process.inFlight).toEqual([]);
      expect(process.keys()).toEqual(['k']);
      queue.unsuspend();
      queue.unsuspend();
      await setting().atRest();
      expect(process.keys().toSorted()).toEqual(['k', 'k', 'l', 'm', 'n']);
    });

    it('starts nothing when it was paused before its start', async () => {
      const { queue, process } = setting();
      queue.suspend();
      await queue.add(plain('k'));
      await queue.addLow(['l'], 'initial');
      await queue.start(process);
      await setting().wait();
      expect(process.runs).toEqual([]);
      queue.unsuspend();
      await setting().atRest();
      expect(process.keys().toSorted()).toEqual(['k', 'l']);
    });

    it('waits at its stop for the runs in flight, and keeps what they end with', async () => {
      const { queue, process } = setting();
      const { promise, resolve } = Promise.withResolvers<Finish>();
      process.onRun = () => promise;
      await queue.start(process);
      await queue.add(plain('k', 'l', 'm', 'n', 'o', 'p'));
      await setting().until(() => process.inFlight.length === 4, 'four runs in flight');
      const stopped = queue.stop(10_000);
      await setting().wait();
      resolve({ kind: 'ended', failures: 'count' });
      await stopped;
      expect(process.inFlight).toEqual([]);
      const ended = process.keys();
      expect(ended).toHaveLength(4);
      // The next gateway finds the outcomes, and the keys that had not started.
      const next = await setting().open();
      const after = setting().newProcess();
      await next.start(after);
      await next.add(plain(...ended));
      await setting().until(() => after.runs.length === 6, 'six runs');
      for (const run of after.runs) expect(run.failures).toBe(ended.includes(run.key) ? 1 : 0);
      expect(after.losses).toEqual([]);
    });

    it('is not brought back by a resume after its stop: another may go on under its name', async () => {
      const { queue, process } = setting();
      process.unpassed.add('b');
      process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b', againAfterMs: 0 });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.stop(1000);
      queue.unsuspend();
      // No gateway looks at its timers, however much time passes.
      const { clock } = setting();
      for (const end = clock.now() + 5000; clock.now() < end; await setting().wait()) clock.step(clock.now() + 500);
      expect(process.lates).toEqual([]);
    });

    it('may be stopped twice, and without a start', async () => {
      const { queue, process } = setting();
      await queue.stop(1000);
      await queue.stop(1000);
      const other = await setting().open();
      await other.start(process);
      await other.stop(1000);
      await other.stop(1000);
    });

    it('gives up waiting at its stop, and the next gateway settles the run', async () => {
      const { process, clock } = setting();
      const short = await setting().open({ timeoutMs: 500 });
      const blocked = setting().blockRuns('k');
      await short.start(process);
      await short.add(plain('k'));
      await setting().ran('k');
      const stopped = short.stop(100);
      clock.step(clock.now() + 100);
      await stopped;
      const next = await setting().open({ timeoutMs: 500 });
      const after = setting().newProcess();
      await next.start(after);
      await next.add(plain('k'));
      // What the first gateway had taken is given to another one in real time.
      await eventually(
        async () => {
          clock.step(clock.now() + 100);
          expect(after.runs.length).toBeGreaterThan(0);
        },
        60_000,
        10,
      );
      expect(after.losses).toMatchObject([{ key: 'k', failures: 0 }]);
      expect(after.losses[0]?.atMs).toBeGreaterThanOrEqual((process.runs[0]?.deadlineMs ?? 0) + 1000);
      expect(after.runs[0]?.failures).toBe(1);
      blocked.release();
    });

    it('tells how many keys wait and how many run', async () => {
      const { queue, process } = setting();
      await queue.add(plain('a', 'b'));
      expect(await queue.inspector.levels()).toMatchObject({ sizes: { queued: 2, running: 0 } });
      const one = await setting().open({ concurrency: 1 });
      const { promise, resolve } = Promise.withResolvers<Finish>();
      process.onRun = () => promise;
      await one.start(process);
      await setting().until(() => process.inFlight.length === 1, 'one run');
      expect(await one.inspector.levels()).toMatchObject({ sizes: { queued: 1, running: 1 } });
      resolve(done);
      await setting().atRest();
      expect(await one.inspector.levels()).toMatchObject({ sizes: { queued: 0, running: 0 } });
    });

    it('leaves nothing behind when all data of the queue are deleted', async () => {
      const { queue, process, clock } = setting();
      await queue.add(plain('a', 'b'));
      await queue.addAfter('c', 60_000);
      await queue.addLow(['d'], 'initial');
      await queue.pause('controller', clock.now() + 1000);
      await setting().lose();
      expect(await setting().pending()).toBe(0);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
      await queue.start(process);
      await setting().pass(61_000);
      expect(process.runs).toEqual([]);
    });
  });
}
