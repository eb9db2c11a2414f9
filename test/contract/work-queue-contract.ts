import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Reason } from '../../src/contract/index.ts';
import type { Finish, WorkQueue } from '../../src/gateway/workqueue/work-queue.ts';
import { eventually } from '../harness/eventually.ts';
import { done, RecordingProcess } from '../harness/recording-process.ts';
import { ShiftedClock } from '../harness/test-clock.ts';

export interface WorkQueueFixture {
  /** One more gateway on the same queue. */
  open(options?: { concurrency?: number; timeoutMs?: number }): Promise<WorkQueue>;
  /** How many keys wait for anything, now or later; runs in flight included. */
  pending(): Promise<number>;
  /** Warnings and errors that were logged. */
  readonly troubles: readonly string[];
  close(): Promise<void>;
}

const because = (resourceVersion: string): Reason => ({ type: 'updated', object: 'v1/Pod a/b', resourceVersion });
const plain = (...keys: string[]) => keys.map((key) => ({ key, reasons: [] }));

/** The promises of `WorkQueue`, for every implementation of it. */
export function workQueueContract(name: string, create: (clock: ShiftedClock) => Promise<WorkQueueFixture>): void {
  describe(`${name} as a WorkQueue`, () => {
    let clock: ShiftedClock;
    let fixture: WorkQueueFixture;
    let queue: WorkQueue;
    let process: RecordingProcess;

    beforeEach(async () => {
      clock = new ShiftedClock();
      fixture = await create(clock);
      queue = await fixture.open();
      process = new RecordingProcess();
    });

    afterEach(async () => {
      await fixture.close();
      expect(process.overlaps).toEqual([]);
      expect(fixture.troubles).toEqual([]);
    });

    /** Until nothing waits and nothing runs, timers included. */
    const atRest = (): Promise<void> =>
      eventually(async () => expect(await fixture.pending()).toBe(0), 10_000, 20).then(() => undefined);
    const ran = (key: string, times: number): Promise<void> =>
      eventually(async () => expect(process.runsOf(key).length).toBeGreaterThanOrEqual(times), 10_000, 5);

    /** Runs of `key` that start stay in flight until they are let go. */
    function holdRuns(key: string): { release: (finish?: Finish) => void } {
      const { promise, resolve } = Promise.withResolvers<Finish>();
      process.onRun = (run) => (run.key === key ? promise : done);
      return {
        release: (finish = done) => {
          process.onRun = () => done;
          resolve(finish);
        },
      };
    }

    it('runs a key once that was added many times while it waited', async () => {
      for (let at = 1; at <= 20; at += 1) await queue.add([{ key: 'a/b', reasons: [because(String(at))] }]);
      await queue.add(plain('a/b', 'a/b', 'a/c'));
      await queue.start(process);
      await atRest();
      expect(process.keys().toSorted()).toEqual(['a/b', 'a/c']);
      const [run] = process.runsOf('a/b');
      expect(run?.reasons[0]).toEqual(because('1'));
      expect(run?.reasons.length).toBeGreaterThan(1);
    });

    it('runs a key once more that was touched while it ran, however often', async () => {
      const hold = holdRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await ran('k', 1);
      for (let at = 1; at <= 20; at += 1) await queue.add([{ key: 'k', reasons: [because(String(at))] }]);
      await sleep(100);
      expect(process.runs).toHaveLength(1);
      hold.release();
      await ran('k', 2);
      await atRest();
      expect(process.runs).toHaveLength(2);
      expect(process.runs[1]?.reasons[0]).toEqual(because('1'));
    });

    it('gives each run a higher number', async () => {
      await queue.start(process);
      for (let at = 0; at < 20; at += 1) {
        await queue.add(plain('k', 'l'));
        await ran('k', at + 1);
      }
      await atRest();
      const numbers = process.runs.map(({ run }) => run);
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      expect(new Set(numbers).size).toBe(numbers.length);
    });

    it('runs no key twice at a time, over two gateways', async () => {
      const other = await fixture.open();
      process.onRun = async () => {
        await sleep(3);
        return done;
      };
      await Promise.all([queue.start(process), other.start(process)]);
      for (let at = 0; at < 100; at += 1) {
        await Promise.all([queue.add(plain('k', 'l')), other.add(plain('k', 'm'))]);
        if (at % 5 === 0) await sleep(2);
      }
      await atRest();
      expect(process.overlaps).toEqual([]);
    });

    it('runs as many keys at a time as it was told, over two gateways', async () => {
      const most: number[] = [];
      process.onRun = async () => {
        most.push(process.flying.length);
        await sleep(5);
        return done;
      };
      const [one, two] = [await fixture.open({ concurrency: 3 }), await fixture.open({ concurrency: 3 })];
      await Promise.all([one.start(process), two.start(process)]);
      await one.add(plain(...Array.from({ length: 60 }, (_, at) => `k${at}`)));
      await atRest();
      expect(process.runs).toHaveLength(60);
      expect(Math.max(...most)).toBe(3);
    });

    it.each([
      [60_000, 150],
      [150, 60_000],
    ])('keeps the earliest of two times (%d ms, then %d ms)', async (first, second) => {
      await queue.start(process);
      const from = Date.now();
      await queue.addAfter('k', first);
      await queue.addAfter('k', second);
      await ran('k', 1);
      expect(Date.now() - from).toBeGreaterThanOrEqual(150);
      expect(Date.now() - from).toBeLessThan(5000);
      // A run ends the wait: the later time is gone.
      await atRest();
      clock.advance(120_000);
      await sleep(150);
      expect(process.runs).toHaveLength(1);
    });

    it('takes a time that has passed for now', async () => {
      await queue.start(process);
      await queue.addAfter('k', -5);
      await ran('k', 1);
    });

    it('runs a key with a time at once when it is added', async () => {
      await queue.start(process);
      await queue.addAfter('k', 60_000);
      await queue.add(plain('k'));
      await ran('k', 1);
      await atRest();
      clock.advance(120_000);
      await sleep(150);
      expect(process.runs).toHaveLength(1);
    });

    it('starts no run before its time', async () => {
      await queue.start(process);
      const from = Date.now();
      await queue.addAfter('k', 300);
      await ran('k', 1);
      expect(Date.now() - from).toBeGreaterThanOrEqual(300);
    });

    it('runs a key again after the time that its run asked for', async () => {
      process.onRun = () =>
        process.runs.length === 1 ? { kind: 'known', failures: 'forget', againAfterMs: 200 } : done;
      await queue.start(process);
      const from = Date.now();
      await queue.add(plain('k'));
      await ran('k', 2);
      expect(Date.now() - from).toBeGreaterThanOrEqual(200);
      await atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('runs a key that was touched while it ran before the time that its run asked for', async () => {
      const hold = holdRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await ran('k', 1);
      await queue.add(plain('k'));
      hold.release({ kind: 'known', failures: 'forget', againAfterMs: 60_000 });
      await ran('k', 2);
      await atRest();
    });

    it('counts, keeps and forgets failures', async () => {
      const finishes: Finish[] = [
        { kind: 'known', failures: 'count', againAfterMs: 0 },
        { kind: 'known', failures: 'count', againAfterMs: 0 },
        { kind: 'known', failures: 'keep', againAfterMs: 0 },
        { kind: 'known', failures: 'forget', againAfterMs: 0 },
        done,
      ];
      process.onRun = () => finishes[process.runs.length - 1] ?? done;
      await queue.start(process);
      await queue.add(plain('k'));
      await atRest();
      expect(process.runs.map(({ failures }) => failures)).toEqual([0, 1, 2, 2, 0]);
    });

    it('runs low keys behind live ones that come later', async () => {
      const slow = await fixture.open({ concurrency: 1 });
      process.onRun = async () => {
        await sleep(1);
        return done;
      };
      await slow.addLow(
        Array.from({ length: 1500 }, (_, at) => `low${at}`),
        'initial',
      );
      await slow.start(process);
      await eventually(async () => expect(process.runs.length).toBeGreaterThan(20), 10_000, 5);
      const before = process.runs.length;
      await slow.add(plain('live'));
      await ran('live', 1);
      // One batch of low keys at most is before it, and not all of them.
      expect(process.keys().indexOf('live') - before).toBeLessThan(260);
      await atRest();
      expect(new Set(process.keys()).size).toBe(1501);
    });

    it('runs low keys in the end though live ones never stop coming', async () => {
      const slow = await fixture.open({ concurrency: 1 });
      const lows = ['low1', 'low2', 'low3'];
      const before = new Map<string, number>();
      let flooding = true;
      let count = 400;
      // Each live key is followed by another before its run ends, so 399 wait at any moment: there is never room.
      process.onRun = async ({ key }) => {
        if (lows.includes(key)) before.set(key, (await slow.counts()).waiting);
        else if (flooding) await slow.add(plain(`live${(count += 1)}`));
        return done;
      };
      await slow.add(plain(...Array.from({ length: count }, (_, at) => `live${at + 1}`)));
      await slow.addLow(lows, 'initial');
      await slow.start(process);
      await eventually(async () => expect([...before.keys()]).toEqual(expect.arrayContaining(lows)));
      flooding = false;
      for (const low of lows) expect(before.get(low)).toBeGreaterThanOrEqual(399);
      await atRest();
    });

    it('gives a low key that has no other reason the reason initial', async () => {
      await queue.addLow(['k'], 'initial');
      await queue.start(process);
      await ran('k', 1);
      expect(process.runs[0]?.reasons).toEqual([{ type: 'initial' }]);
      await atRest();
    });

    it('settles a run of unknown outcome after its deadline, and lets the key rest until then', async () => {
      const short = await fixture.open({ timeoutMs: 300 });
      process.onRun = () => (process.runs.length === 1 ? { kind: 'unknown' } : done);
      await short.start(process);
      await short.add(plain('k'));
      await ran('k', 1);
      const [first] = process.runs;
      await short.add(plain('k'));
      await ran('k', 2);
      expect(process.losses).toHaveLength(1);
      expect(process.losses[0]).toMatchObject({ key: 'k', run: first?.run, failures: 0 });
      // A margin after the deadline: what the run has sent in time is settled by then.
      expect(process.losses[0]?.atMs).toBeGreaterThanOrEqual((first?.deadlineMs ?? 0) + 1000);
      expect(process.runs[1]?.failures).toBe(1);
      expect(process.runs[1]?.deadlineMs).toBeGreaterThan(Date.now());
      await atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('starts no run before a barrier has passed, says when it is late, and starts it then', async () => {
      process.holding.add('b');
      process.onRun = () => (process.runs.length === 1 ? { kind: 'known', failures: 'forget', barrier: 'b' } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await ran('k', 1);
      await queue.add(plain('k'));
      await queue.addLow(['k'], 'initial');
      await queue.addAfter('k', 0);
      await sleep(300);
      expect(process.runs).toHaveLength(1);
      expect(process.lates).toEqual([]);
      clock.advance(1000);
      await eventually(async () => expect(process.lates).toContain('b'), 5000, 5);
      expect(process.runs).toHaveLength(1);
      process.holding.clear();
      await ran('k', 2);
      await atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('does not wait for a barrier that has passed already', async () => {
      process.onRun = () => ({ kind: 'known', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      for (let at = 1; at <= 5; at += 1) {
        await queue.add(plain('k'));
        await ran('k', at);
        await atRest();
      }
      expect(process.runs).toHaveLength(5);
    });

    it('holds a barrier against every gateway', async () => {
      const other = await fixture.open();
      const held = new RecordingProcess();
      held.holding.add('b');
      process.holding.add('b');
      process.onRun = () => ({ kind: 'known', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      await queue.add(plain('k'));
      await ran('k', 1);
      await atRest();
      await other.start(held);
      await other.add(plain('k'));
      await sleep(200);
      expect([...held.runs, ...process.runs]).toHaveLength(1);
      process.holding.clear();
      held.holding.clear();
      process.onRun = () => done;
      await eventually(async () => expect([...held.runs, ...process.runs]).toHaveLength(2), 5000, 5);
      await atRest();
    });

    it('starts nothing while paused, lets runs go on, and starts all after resume', async () => {
      const hold = holdRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await ran('k', 1);
      queue.pause();
      queue.pause();
      await queue.add(plain('k', 'l'));
      await queue.addLow(['m'], 'initial');
      await queue.addAfter('n', 0);
      hold.release();
      await sleep(300);
      expect(process.flying).toEqual([]);
      expect(process.keys()).toEqual(['k']);
      queue.resume();
      queue.resume();
      await ran('n', 1);
      await atRest();
      expect(process.keys().toSorted()).toEqual(['k', 'k', 'l', 'm', 'n']);
    });

    it('starts nothing when it was paused before its start', async () => {
      queue.pause();
      await queue.add(plain('k'));
      await queue.addLow(['l'], 'initial');
      await queue.start(process);
      await sleep(200);
      expect(process.runs).toEqual([]);
      queue.resume();
      await ran('k', 1);
      await ran('l', 1);
      await atRest();
    });

    it('waits at its stop for the runs in flight, and keeps what they end with', async () => {
      process.onRun = async () => {
        await sleep(300);
        return { kind: 'known', failures: 'count' };
      };
      await queue.start(process);
      await queue.add(plain('k', 'l', 'm', 'n', 'o', 'p'));
      await eventually(async () => expect(process.flying.length).toBe(4), 5000, 5);
      await queue.stop(10_000);
      expect(process.flying).toEqual([]);
      const ended = process.keys();
      expect(ended.length).toBeGreaterThanOrEqual(4);
      await sleep(100);
      expect(process.keys()).toEqual(ended);
      // The next gateway finds the outcomes, and the keys that had not started.
      const next = await fixture.open();
      const after = new RecordingProcess();
      await next.start(after);
      await next.add(plain(...ended));
      await eventually(async () => expect(after.runs.length).toBe(6), 5000, 5);
      for (const run of after.runs) expect(run.failures).toBe(ended.includes(run.key) ? 1 : 0);
      expect(after.losses).toEqual([]);
    });

    it('may be stopped twice, and without a start', async () => {
      await queue.stop(1000);
      await queue.stop(1000);
      const other = await fixture.open();
      await other.start(process);
      await other.stop(1000);
      await other.stop(1000);
    });

    it('gives up waiting at its stop, and the next gateway settles the run', async () => {
      const short = await fixture.open({ timeoutMs: 500 });
      const hold = holdRuns('k');
      await short.start(process);
      await short.add(plain('k'));
      await ran('k', 1);
      const from = Date.now();
      await short.stop(100);
      expect(Date.now() - from).toBeLessThan(2000);
      const next = await fixture.open({ timeoutMs: 500 });
      const after = new RecordingProcess();
      await next.start(after);
      await next.add(plain('k'));
      await eventually(async () => expect(after.runs.length).toBeGreaterThan(0), 20_000, 20);
      expect(after.losses).toMatchObject([{ key: 'k', failures: 0 }]);
      expect(after.losses[0]?.atMs).toBeGreaterThanOrEqual((process.runs[0]?.deadlineMs ?? 0) + 1000);
      expect(after.runs[0]?.failures).toBe(1);
      hold.release();
    });

    it('tells how many keys wait and how many run', async () => {
      await queue.add(plain('a', 'b'));
      expect(await queue.counts()).toEqual({ waiting: 2, running: 0 });
      const one = await fixture.open({ concurrency: 1 });
      const { promise, resolve } = Promise.withResolvers<Finish>();
      process.onRun = () => promise;
      await one.start(process);
      await eventually(async () => expect(await one.counts()).toEqual({ waiting: 1, running: 1 }), 5000, 5);
      resolve(done);
      await atRest();
      expect(await one.counts()).toEqual({ waiting: 0, running: 0 });
    });

    it('leaves nothing behind when it is obliterated', async () => {
      await queue.add(plain('a', 'b'));
      await queue.addAfter('c', 60_000);
      await queue.addLow(['d'], 'initial');
      await queue.obliterate();
      expect(await fixture.pending()).toBe(0);
      await queue.start(process);
      clock.advance(120_000);
      await sleep(100);
      expect(process.runs).toEqual([]);
    });
  });
}
