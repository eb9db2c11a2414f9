import { describe, expect, it } from 'vitest';
import type { Process, QueueOptions, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

export function limitsContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('debounce', () => {
    it('waits until adds pause, but no longer than its bound, and runs once', async () => {
      const { process, clock } = setting();
      const queue = await setting().open({ debounce: { windowMs: 100, maxMs: 350 } });
      await queue.start(process);
      const from = clock.now();
      await queue.add(plain('once', 'often'));
      // The end of a tenth of the window, which keys share.
      const untilMs = Math.ceil((from + 100) / 10) * 10;
      expect((await queue.inspector.status('often')).waits).toMatchObject([{ reason: 'debounce', untilMs }]);
      for (let at = 0; at < 12; at += 1) {
        await queue.add(plain('often'));
        await setting().pass(50);
      }
      await setting().atRest();
      const startOf = (key: string) => (process.startedAtMs[process.keys().indexOf(key)] ?? 0) - from;
      expect(process.runsOf('once')).toHaveLength(1);
      expect(startOf('once')).toBeGreaterThanOrEqual(100);
      expect(startOf('once')).toBeLessThanOrEqual(120);
      expect(startOf('often')).toBeGreaterThanOrEqual(350);
      expect(startOf('often')).toBeLessThanOrEqual(370);
      expect(process.runsOf('often')).toHaveLength(2);
    });

    it('ends the waits of keys together that end within a tenth of the window, 100 ms at most', async () => {
      const { process, clock } = setting();
      const queue = await setting().open({ debounce: { windowMs: 1000, maxMs: 1000 }, concurrency: 20, maxBatch: 20 });
      await queue.start(process);
      const keys = Array.from({ length: 20 }, (_, at) => `k${at}`);
      const addedAtMs = new Map<string, number>();
      for (const key of keys) {
        addedAtMs.set(key, clock.now());
        await queue.add(plain(key));
        await setting().pass(10);
      }
      await setting().pass(1200);
      await setting().atRest();
      expect(process.keys().toSorted()).toEqual(keys.toSorted());
      for (const [at, key] of process.keys().entries()) {
        const waitedMs = (process.startedAtMs[at] ?? 0) - (addedAtMs.get(key) ?? 0);
        expect(waitedMs).toBeGreaterThanOrEqual(1000);
        expect(waitedMs).toBeLessThanOrEqual(1150);
      }
      // Each by itself, they would start at twenty times, and in as many triggers.
      const steps = new Set([...addedAtMs.values()].map((ms) => Math.ceil((ms + 1000) / 100)));
      expect(process.batches.flat().length).toBeGreaterThan(15);
      expect(process.batches.length).toBeLessThanOrEqual(steps.size + 1);
      expect(new Set(process.startedAtMs.map((ms) => Math.floor((ms % 100) / 50))).size).toBe(1);
    });

    it('with `leading` runs a lone key at once, and one that has just written when its time is over', async () => {
      const { process, clock } = setting();
      process.onRun = async () => ({ ...done, barrier: 'written' });
      const queue = await setting().open({ debounce: { windowMs: 1000, maxMs: 1000, leading: true } });
      await queue.start(process);
      const from = clock.now();
      for (let at = 0; at < 30; at += 1) {
        await queue.add(plain('often'));
        await setting().pass(100);
      }
      await setting().atRest();
      const starts = process.startedAtMs.map((ms) => ms - from);
      expect(starts).toHaveLength(4);
      expect(starts[0]).toBeLessThanOrEqual(10);
      for (const [at, start] of starts.entries()) {
        expect(start).toBeGreaterThanOrEqual(at * 1000);
        expect(start).toBeLessThanOrEqual(at * 1100 + 150);
      }
      process.onRun = async () => done;
      await setting().pass(1000);
      for (let at = 0; at < 3; at += 1) {
        await queue.add(plain('often'));
        await setting().pass(100);
      }
      // The first of them takes the barrier off, and none of them writes.
      expect(process.runs).toHaveLength(7);
    });

    it('with `leading` does not wait anew for an add between the end asked for and the tenth it falls on', async () => {
      const { process, clock } = setting();
      process.onRun = async () => ({ ...done, barrier: 'written' });
      const queue = await setting().open({ debounce: { windowMs: 1000, maxMs: 1000, leading: true } });
      await queue.start(process);
      // So that the key writes a little after a tenth.
      await setting().pass(110 - (clock.now() % 100));
      await queue.add(plain('key'));
      await setting().pass(20);
      const wroteMs = process.startedAtMs[0] ?? 0;
      await setting().pass(850);
      await queue.add(plain('key'));
      await setting().pass(wroteMs + 1030 - clock.now());
      await queue.add(plain('key'));
      await setting().pass(150);
      expect((process.startedAtMs[1] ?? Infinity) - wroteMs).toBeLessThanOrEqual(1150);
    });

    it('delays no timer and no low key, and a run ends the wait', async () => {
      const { process } = setting();
      const queue = await setting().open({ debounce: { windowMs: 60_000, maxMs: 60_000 } });
      await queue.addAfter('timer', 10);
      await queue.addLow(['low'], 'initial');
      await queue.add(plain('timer', 'low'));
      await queue.start(process);
      await setting().pass(100);
      expect(process.keys().toSorted()).toEqual(['low', 'timer']);
      await setting().pass(61_000);
      expect(process.runs).toHaveLength(2);
    });

    it('of a key that was touched while it ran lasts its whole window, however long', async () => {
      const { process, clock } = setting();
      const queue = await setting().open({ debounce: { windowMs: 90_000, maxMs: 90_000 } });
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await queue.addAfter('k', 0);
      await setting().ran('k');
      const from = clock.now();
      await queue.add(plain('k'));
      await setting().pass(1000);
      blocked.release();
      // A key that is looked for 30 s after its run would be run again, and reported as lost, within this time.
      for (let at = 0; at < 8; at += 1) {
        await setting().pass(10_000);
        expect([(await queue.inspector.levels()).oldestDueMs, await queue.stalledMs()]).toEqual([undefined, 0]);
      }
      expect(process.runs).toHaveLength(1);
      expect(setting().takeTroubles()).toEqual([]);
      await setting().pass(20_000);
      expect(process.runs).toHaveLength(2);
      expect((process.startedAtMs[1] ?? 0) - from).toBeGreaterThanOrEqual(90_000);
      expect((process.startedAtMs[1] ?? 0) - from).toBeLessThanOrEqual(90_110);
      expect(await setting().pending()).toBe(0);
    });

    it('of a key that was touched while it ran ends on time, and the key is due from then on', async () => {
      const { process } = setting();
      const options = { debounce: { windowMs: 60_000, maxMs: 60_000 }, concurrency: 1, timeoutMs: 200_000 };
      const queue = await setting().open(options);
      const first = setting().blockRuns('k');
      await queue.start(process);
      await queue.addAfter('k', 0);
      await setting().ran('k');
      await queue.add(plain('k'));
      first.release();
      const other = setting().blockRuns('other');
      await queue.addAfter('other', 0);
      await setting().ran('other');
      await setting().pass(100_000);
      // It has waited for the one slot since the end of its window.
      expect(Math.round(((await queue.inspector.levels()).oldestDueMs ?? 0) / 1000)).toBe(40);
      other.release();
      await setting().atRest();
      expect(process.keys()).toEqual(['k', 'other', 'k']);
      expect((await queue.inspector.levels()).oldestDueMs).toBeUndefined();
    });
  });

  const openMore = (count: number, options: Partial<QueueOptions>): Promise<WorkQueue[]> =>
    Promise.all(Array.from({ length: count }, () => setting().open(options)));

  describe('the limit of runs at a time', () => {
    it.each([2, 3])('is that of %i gateways together, and each of them may reach it alone', async (count) => {
      const { clock } = setting();
      const gateways = await openMore(count, { concurrency: 6 });
      const processes = gateways.map(() => setting().newProcess());
      const together: number[] = [];
      for (const process of processes) {
        process.onRun = async () => {
          together.push(processes.reduce((sum, { inFlight }) => sum + inFlight.length, 0));
          await clock.sleep(10);
          return done;
        };
      }
      await Promise.all(gateways.map((queue, at) => queue.start(processes[at] as Process)));
      await Promise.all(gateways.map((queue, at) => queue.add(plain(...numbered(`${at}/`, 60)))));
      await gateways[0]?.addLow(numbered('low', 60), 'initial');
      await setting().atRest();
      expect(together).toHaveLength(60 * count + 60);
      expect(Math.max(...together)).toBe(6);
      const [first, ...rest] = gateways;
      for (const queue of rest) queue.allow(0);
      together.length = 0;
      await first?.add(plain(...numbered('alone', 20)));
      await setting().atRest();
      expect(Math.max(...together)).toBe(6);
    });
  });

  describe('the rate limit', () => {
    it.each([2, 3])(
      'lets a burst start and then as many as tokens come, over %i gateways, each key once',
      async (count) => {
        const { process, clock } = setting();
        const options = { concurrency: 50, rateLimit: { perSecond: 10, burst: 5 } };
        const one = await setting().open(options);
        const others = await openMore(count - 1, options);
        await Promise.all([one, ...others].map((queue) => queue.start(process)));
        const from = clock.now();
        await one.add(plain(...numbered('k', 15)));
        await others.at(-1)?.add(plain(...numbered('l', 10)));
        await setting().settle();
        expect(process.runs).toHaveLength(5);
        const waiting = numbered('k', 15).find((key) => !process.keys().includes(key)) ?? '';
        expect((await one.inspector.status(waiting)).waits).toMatchObject([{ reason: 'rate-limit' }]);
        // Touching a key that waits for its token takes no second one.
        await one.add(plain(...numbered('k', 15).filter((key) => !process.keys().includes(key))));
        await setting().atRest();
        expect(process.keys().toSorted()).toEqual([...numbered('k', 15), ...numbered('l', 10)].toSorted());
        process.startedAtMs.forEach((startedAtMs, at) => {
          expect(startedAtMs - from).toBeGreaterThanOrEqual(Math.max(0, at - 4) * 100);
          expect(startedAtMs - from).toBeLessThanOrEqual(Math.max(0, at - 4) * 100 + 30);
        });
        // The bucket fills up again.
        await setting().pass(2000);
        await one.add(plain(...numbered('m', 6)));
        await setting().settle();
        expect(process.runs).toHaveLength(30);
        await setting().atRest();
      },
    );
  });

  describe('a dead letter', () => {
    it('is what a key becomes that fails too often, with its last outcomes; a new event revives it', async () => {
      const { process } = setting();
      const queue = await setting().open({ maxAttempts: 3 });
      process.onRun = ({ failures }) => ({
        kind: 'ended',
        failures: 'count',
        againAfterMs: 10,
        error: `no ${failures + 1}`,
      });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().pass(60_000);
      expect(process.runsOf('k').map(({ failures }) => failures)).toEqual([0, 1, 2]);
      const status = await queue.inspector.status('k');
      expect(status).toMatchObject({ queued: false, failures: 3, waits: [] });
      expect(status.deadSinceMs).toBe(process.startedAtMs[2]);
      expect(status.timerMs).toBeUndefined();
      const history = await queue.history.runsOf('k');
      expect(history.map(({ outcome, error }) => [outcome, error])).toEqual([
        ['dead', 'no 3'],
        ['failed', 'no 2'],
        ['failed', 'no 1'],
      ]);
      const dead = await queue.inspector.list('dead', { offset: 0, limit: 10 });
      expect(dead).toEqual({ total: 1, keys: [{ key: 'k', atMs: status.deadSinceMs }] });
      expect(await setting().pending()).toBe(0);

      process.onRun = () => done;
      await queue.add(plain('k'));
      await setting().atRest();
      expect(process.runsOf('k').map(({ failures }) => failures)).toEqual([0, 1, 2, 0]);
      expect((await queue.inspector.list('dead', { offset: 0, limit: 10 })).total).toBe(0);
    });

    it('is what a key becomes at once when no attempt will help, unless it was touched meanwhile', async () => {
      const { queue, process } = setting();
      const blocked = setting().blockRuns('touched');
      const onRun = process.onRun;
      const terminal = { kind: 'ended', failures: 'keep', dead: true, error: 'never', againAfterMs: 5 } as const;
      process.onRun = (run) => (run.key === 'touched' ? onRun(run) : terminal);
      await queue.start(process);
      await queue.add(plain('k', 'touched'));
      await setting().ran('touched');
      await queue.add(plain('touched'));
      blocked.release(terminal);
      await setting().pass(1000);
      expect(process.runsOf('k')).toHaveLength(1);
      expect(process.runsOf('touched')).toHaveLength(2);
      expect((await queue.inspector.list('dead', { offset: 0, limit: 10 })).keys.map(({ key }) => key)).toEqual(['k']);
    });

    it('is forgotten when it is dropped, and nothing else is', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) =>
        key.startsWith('dead')
          ? { kind: 'ended', failures: 'keep', dead: true, error: 'never' }
          : { kind: 'ended', failures: 'count', againAfterMs: 60_000, error: 'later' };
      await queue.start(process);
      await queue.add(plain('dead1', 'dead2', 'alive'));
      await setting().settle();
      expect(await queue.drop(['dead1', 'alive', 'unknown'])).toBe(1);
      expect(await queue.inspector.status('dead1')).toMatchObject({ failures: 0 });
      expect((await queue.inspector.status('dead1')).deadSinceMs).toBeUndefined();
      expect(await queue.inspector.status('alive')).toMatchObject({ failures: 1 });
      expect((await queue.inspector.list('dead', { offset: 0, limit: 10 })).keys.map(({ key }) => key)).toEqual([
        'dead2',
      ]);
    });

    it('keeps a bounded history, newest first, whatever else runs; a success ends it', async () => {
      const { process } = setting();
      const queue = await setting().open({}, { historyRuns: 0 });
      process.onRun = ({ failures }) =>
        failures < 14 ? { kind: 'ended', failures: 'count', againAfterMs: 5, error: `${failures}`.repeat(2000) } : done;
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().atRest();
      const history = await queue.history.runsOf('k');
      expect(history).toHaveLength(10);
      expect(history[0]).toMatchObject({ outcome: 'done', atMs: process.startedAtMs[14], run: process.runs[14]?.run });
      expect(history[1]?.error).toBe(`${'13'.repeat(510)}1…`);
    });
  });
}
