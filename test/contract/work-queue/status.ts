import { describe, expect, it } from 'vitest';
import { KEY_LISTS } from '../../../src/gateway/controller/workqueue/key-status.ts';
import { keyState } from '../../../src/gateway/controller/workqueue/key-state.ts';
import { because, type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

const ONE = { offset: 0, limit: 1 };

/** Everything about a key can be asked. */
export function statusContract(create: CreateFixture): void {
  const setting = eachSetting(create);
  const keysOf = async (list: (typeof KEY_LISTS)[number]): Promise<string[]> =>
    (await setting().queue.inspector.list(list, { offset: 0, limit: 100 })).keys.map(({ key }) => key);

  describe('the status of a key', () => {
    it('of an unknown key is empty', async () => {
      expect(await setting().queue.inspector.status('a/b')).toEqual({
        key: 'a/b',
        queued: false,
        dirty: false,
        backlog: false,
        waits: [],
        pauses: [],
        failures: 0,
        reasons: [],
      });
      for (const list of KEY_LISTS) expect(await keysOf(list), list).toEqual([]);
    });

    it('that waits tells since when and why; one that runs, its run and its deadline; and both when it is touched', async () => {
      const { queue, process, clock } = setting();
      const from = clock.now();
      await queue.add([{ key: 'k', reasons: [because('1')] }]);
      expect(await queue.inspector.status('k')).toMatchObject({
        queued: true,
        queuedAtMs: from,
        reasons: [because('1')],
      });
      expect(await keysOf('queued')).toEqual(['k']);
      const blocked = setting().blockRuns('k');
      await queue.start(process);
      await setting().ran('k');
      const running = { run: process.runs[0]?.run, deadlineMs: from + 15_000 };
      expect(await queue.inspector.status('k')).toMatchObject({ queued: false, running, reasons: [] });
      expect(await keysOf('running')).toEqual(['k']);
      await queue.add([{ key: 'k', reasons: [because('2')] }]);
      expect(await queue.inspector.status('k')).toMatchObject({ queued: true, running, reasons: [because('2')] });
      blocked.release({ kind: 'ended', failures: 'count', againAfterMs: 60_000, error: 'no' });
      await setting().atRest();
      expect(await queue.inspector.status('k')).toMatchObject({ queued: false, failures: 0 });
    });

    it('with a timer tells when, and in the backlog that it is there', async () => {
      const { queue, clock } = setting();
      await queue.addAfter('timer', 60_000);
      await queue.addLow(['low'], 'initial');
      expect((await queue.inspector.status('timer')).timerMs).toBe(clock.now() + 60_000);
      expect(await queue.inspector.status('low')).toMatchObject({ backlog: true, queued: false });
      expect(await keysOf('timers')).toEqual(['timer']);
      expect(await keysOf('backlog')).toEqual(['low']);
    });

    it('of one that has failed is found in the list of those that fail while it waits for its next attempt', async () => {
      const { queue, process, clock } = setting();
      process.onRun = ({ key }) => ({
        kind: 'ended',
        failures: key.startsWith('f') ? 'count' : 'forget',
        againAfterMs: 60_000,
      });
      await queue.start(process);
      await queue.add(plain('a', 'f1', 'b', 'f2'));
      await setting().pass(1000);
      expect((await keysOf('timers')).toSorted()).toEqual(['a', 'b', 'f1', 'f2']);
      expect((await keysOf('failing')).toSorted()).toEqual(['f1', 'f2']);
      expect(await queue.inspector.list('failing', { offset: 1, limit: 1 })).toMatchObject({ total: 2, keys: [{}] });
      expect(keyState(await queue.inspector.status('f1'), clock.now())).toEqual({ word: 'failing' });
      expect(keyState(await queue.inspector.status('a'), clock.now())).toEqual({ word: 'requeued' });
    });

    it('of one that has failed is in that list also while its next attempt runs, until one succeeds', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'ended', failures: 'count', againAfterMs: 60_000 });
      await queue.start(process);
      await queue.add(plain('f', 'g'));
      await setting().pass(1000);
      const blocked = setting().blockRuns('f');
      await queue.add(plain('f'));
      await setting().until(async () => (await keysOf('running')).includes('f'), 'the next attempt');
      expect((await keysOf('failing')).toSorted()).toEqual(['f', 'g']);
      blocked.release({ kind: 'ended', failures: 'forget' });
      await setting().until(async () => (await keysOf('running')).length === 0, 'the end of the attempt');
      expect(await keysOf('failing')).toEqual(['g']);
    });

    it('of one that has failed is in that list behind thousands of timers, and while it is paused', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) => ({
        kind: 'ended',
        failures: key === 'f' ? 'count' : 'forget',
        againAfterMs: key === 'f' ? 90_000 : 60_000,
      });
      await queue.start(process);
      await queue.add(plain('f', ...Array.from({ length: 3100 }, (_, at) => `k${at}`)));
      await setting().until(async () => (await queue.inspector.list('timers', ONE)).total === 3101, 'all runs');
      expect(await queue.inspector.list('failing', ONE)).toMatchObject({ total: 1, keys: [{ key: 'f' }] });
      await queue.pause('key/f');
      await queue.add(plain('f'));
      await setting().pass(1000);
      expect(await queue.inspector.list('failing', ONE)).toMatchObject({ total: 1, keys: [{ key: 'f' }] });
    });

    it('does not wait for a cache that has what its run has written, nor says so while a retry is what it waits for', async () => {
      const { queue, process, clock } = setting();
      const barrier = JSON.stringify({ view: { version: '7' } });
      process.unpassed.add(barrier);
      process.onRun = () => ({ kind: 'ended', failures: 'count', barrier, againAfterMs: 30_000 });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().pass(1000);
      const reasons = async (): Promise<string[]> =>
        (await queue.inspector.status('k')).waits.map(({ reason }) => reason);
      expect(await reasons()).toEqual(['barrier']);
      expect(keyState(await queue.inspector.status('k'), clock.now()).word).toBe('failing');
      await setting().pass(31_000);
      expect(keyState(await queue.inspector.status('k'), clock.now()).word).toBe('waits for the cache');
      process.unpassed.clear();
      expect(await reasons()).toEqual([]);
    });

    it('is found page by page', async () => {
      const { queue, clock } = setting();
      await queue.pause('namespace/a');
      await queue.pause('namespace/b');
      await queue.start(setting().process);
      for (const key of [...numbered('a/', 5), ...numbered('b/', 5)]) {
        await queue.add(plain(key));
        await setting().pass(1);
      }
      const found: string[] = [];
      for (let offset = 0; offset < 12; offset += 3) {
        const page = await queue.inspector.list('waiting', { offset, limit: 3 });
        expect(page.total).toBe(10);
        for (const { atMs = 0 } of page.keys) expect(atMs).toBeLessThanOrEqual(clock.now());
        found.push(...page.keys.map(({ key }) => key));
      }
      expect(found.toSorted()).toEqual([...numbered('a/', 5), ...numbered('b/', 5)]);
    });
  });
}
