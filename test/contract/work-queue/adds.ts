import { describe, expect, it } from 'vitest';
import type { Finish } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done } from '../../harness/recording-process.ts';
import { because, type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

/** client-go's three sets: queue, dirty, processing. */
export function addsContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('add', () => {
    it('runs a key once that was added many times while it waited', async () => {
      const { queue, process } = setting();
      for (let at = 1; at <= 20; at += 1) await queue.add([{ key: 'a/b', reasons: [because(String(at))] }]);
      await queue.add(plain('a/b', 'a/b', 'a/c'));
      await queue.start(process);
      await setting().atRest();
      expect(process.keys().toSorted()).toEqual(['a/b', 'a/c']);
      const [run] = process.runsOf('a/b');
      expect(run?.reasons[0]).toEqual(because('1'));
      expect(run?.reasons.length).toBeGreaterThan(1);
    });

    it('runs a key once more that was touched while it ran, however often', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      for (let at = 1; at <= 20; at += 1) await queue.add([{ key: 'k', reasons: [because(String(at))] }]);
      await setting().pass(1000);
      expect(process.runs).toHaveLength(1);
      blocked.release();
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
      expect(process.runs[1]?.reasons[0]).toEqual(because('1'));
    });

    it('gives the reasons of a run that was not sent to the next one, before those that came since', async () => {
      const { queue, process } = setting();
      const unsent: Finish = { kind: 'ended', failures: 'keep', againAfterMs: 10, sent: false };
      const reasonsOf = (key: string) => process.runsOf(key).map(({ reasons }) => reasons);
      process.onRun = () => (process.runs.length === 1 ? unsent : done);
      await queue.start(process);
      await queue.add([{ key: 'k', reasons: [because('1')] }]);
      await setting().atRest();
      expect(reasonsOf('k')).toEqual([[because('1')], [because('1')]]);
      const blocked = setting().blockRuns('touched');
      await queue.add([{ key: 'touched', reasons: [because('1')] }]);
      await setting().ran('touched');
      await queue.add([{ key: 'touched', reasons: [because('2')] }]);
      blocked.release(unsent);
      await setting().atRest();
      expect(reasonsOf('touched')).toEqual([[because('1')], [because('1'), because('2')]]);
      // However many they are.
      const long = (at: number) => ({ ...because(String(at)), object: `v1/Pod a/${'x'.repeat(500)}` });
      process.onRun = () => (process.runsOf('long').length < 4 ? unsent : done);
      for (let at = 0; at < 3; at += 1) await queue.add([{ key: 'long', reasons: [long(at)] }]);
      await setting().atRest();
      const all = reasonsOf('long').at(-1) ?? [];
      expect(all[0]).toEqual(long(0));
      expect(JSON.stringify(all).length).toBeLessThan(2500);
      process.onRun = () => (process.runsOf('low').length === 1 ? unsent : done);
      await queue.addLow(['low'], 'resync');
      await setting().atRest();
      expect(reasonsOf('low')).toEqual([[{ type: 'resync' }], [{ type: 'resync' }]]);
      // The run that was sent has used them up.
      await queue.addAfter('k', 10);
      await setting().atRest();
      expect(reasonsOf('k').at(-1)).toEqual([{ type: 'requeue' }]);
    });

    it('gives each run a higher number', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      for (let at = 0; at < 20; at += 1) {
        await queue.add(plain('k', 'l'));
        await setting().settle();
      }
      const numbers = process.runs.map(({ run }) => run);
      expect(numbers).toHaveLength(40);
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      expect(new Set(numbers).size).toBe(numbers.length);
    });

    it('runs no key twice at a time, over two gateways', async () => {
      const { queue, process, clock } = setting();
      const other = await setting().open();
      process.onRun = async () => {
        await clock.sleep(3);
        return done;
      };
      await Promise.all([queue.start(process), other.start(process)]);
      for (let at = 0; at < 100; at += 1) {
        await Promise.all([queue.add(plain('k', 'l')), other.add(plain('k', 'm'))]);
        if (at % 5 === 0) await setting().pass(2);
      }
      await setting().atRest();
      expect(process.overlaps).toEqual([]);
      expect(process.runsOf('k').length).toBeGreaterThan(5);
    });

    it('runs as many keys at a time as it was told, over two gateways', async () => {
      const { process, clock } = setting();
      let most = 0;
      process.onRun = async () => {
        most = Math.max(most, process.inFlight.length);
        await clock.sleep(5);
        return done;
      };
      const [one, two] = [await setting().open({ concurrency: 3 }), await setting().open({ concurrency: 3 })];
      await Promise.all([one.start(process), two.start(process)]);
      await one.add(plain(...numbered('k', 60)));
      await setting().atRest();
      expect(process.runs).toHaveLength(60);
      expect(most).toBe(3);
    });

    it('counts, keeps and forgets failures', async () => {
      const { queue, process } = setting();
      const finishes: Finish[] = [
        { kind: 'ended', failures: 'count', againAfterMs: 0 },
        { kind: 'ended', failures: 'count', againAfterMs: 0 },
        { kind: 'ended', failures: 'keep', againAfterMs: 0 },
        { kind: 'ended', failures: 'forget', againAfterMs: 0 },
        done,
      ];
      process.onRun = () => finishes[process.runs.length - 1] ?? done;
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().atRest();
      expect(process.runs.map(({ failures }) => failures)).toEqual([0, 1, 2, 2, 0]);
    });

    it('gives keys that start together to a process that takes several, each with its own finish, and one that has failed alone', async () => {
      const { process } = setting();
      const batching = await setting().open({ concurrency: 10, maxBatch: 4 });
      process.onRun = ({ key, failures }) =>
        key === 'k3' && failures === 0 ? { kind: 'ended', failures: 'count', againAfterMs: 40 } : done;
      await batching.add(plain(...numbered('k', 30)));
      await batching.start(process);
      await setting().atRest();
      expect([...new Set(process.keys())].toSorted()).toEqual(numbered('k', 30).toSorted());
      const batches = process.batches.filter(({ length }) => length > 1);
      for (const batch of batches) expect(batch.length).toBeLessThanOrEqual(4);
      // Most keys run in a batch, and no key runs twice.
      expect(batches.flat().length).toBeGreaterThan(15);
      expect(new Set(batches.flat()).size).toBe(batches.flat().length);
      expect(process.runsOf('k3').map(({ failures }) => failures)).toEqual([0, 1]);
    });
  });
}
