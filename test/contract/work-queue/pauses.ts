import { describe, expect, it } from 'vitest';
import type { PauseScope } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

export function pausesContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a pause', () => {
    it.each<[PauseScope, string[]]>([
      ['controller', ['a/k', 'a/l', 'b/k', 'c']],
      ['recovery', ['a/k', 'a/l', 'b/k', 'c']],
      ['namespace/a', ['a/k', 'a/l']],
      ['object/a/k', ['a/k']],
      ['object/c', ['c']],
      ['key/a/k', ['a/k']],
      ['key/c', ['c']],
    ])('of %s keeps back %j, however they come, until it ends', async (scope, kept) => {
      const { queue, process } = setting();
      const keys = ['a/k', 'a/l', 'b/k', 'c'];
      await queue.pause(scope);
      await queue.add(plain('a/k', 'b/k', 'c'));
      await queue.addLow(keys, 'initial');
      await queue.addAfter('a/l', 5);
      await queue.start(process);
      await setting().pass(60_000);
      expect(new Set(process.keys())).toEqual(new Set(keys.filter((key) => !kept.includes(key))));
      const reason = scope === 'recovery' ? { reason: scope } : { reason: 'paused', by: scope };
      for (const key of kept) expect((await queue.inspector.status(key)).waits).toEqual([reason]);
      expect(
        (await queue.inspector.list('waiting', { offset: 0, limit: 10 })).keys.map(({ key }) => key).toSorted(),
      ).toEqual(kept);
      expect(await queue.inspector.levels()).toMatchObject({ sizes: { queued: 0, running: 0 } });
      await queue.resume(scope);
      await setting().atRest();
      for (const key of keys) expect(process.runsOf(key), key).toHaveLength(1);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
    });

    it('says whether it is new, and whether there was one to end', async () => {
      const { queue } = setting();
      for (const scope of ['controller', 'namespace/a', 'key/a/k'] as const) {
        expect(await queue.resume(scope)).toBe(false);
        expect(await queue.pause(scope)).toBe(true);
        expect(await queue.pause(scope)).toBe(false);
        expect(await queue.resume(scope)).toBe(true);
      }
    });

    it('of all keys is the first of those that are listed, then come namespaces and keys; objects are counted', async () => {
      const { queue, clock } = setting();
      const untilMs = clock.now() + 60_000;
      await queue.add([{ key: 'a/k', reasons: [], paused: true }]);
      for (const scope of ['key/a/k', 'namespace/a', 'controller'] as const) await queue.pause(scope);
      await queue.pause('recovery', untilMs);
      const levels = await queue.inspector.levels();
      expect(levels).toMatchObject({ morePauses: 0, pausedObjects: 1, pauseEndMs: untilMs });
      expect(levels.pauses).toMatchObject([
        { scope: 'controller' },
        { scope: 'recovery', untilMs },
        { scope: 'namespace/a' },
        { scope: 'key/a/k' },
      ]);
    });

    it('lets a run in flight end, and keeps back what it asks for', async () => {
      const { queue, process } = setting();
      const run = setting().blockRuns('k');
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.pause('controller');
      await queue.add(plain('k'));
      run.release({ kind: 'ended', failures: 'count', againAfterMs: 5 });
      await setting().pass(1000);
      expect(process.runs).toHaveLength(1);
      await queue.resume('controller');
      await setting().atRest();
      expect(process.runs.map(({ failures }) => failures)).toEqual([0, 1]);
    });

    it('ends by itself at its time, unless that was put off', async () => {
      const { queue, process, clock } = setting();
      const from = clock.now();
      await queue.pause('recovery', from + 500);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().pass(400);
      await queue.pause('recovery', from + 5000);
      await setting().pass(4500);
      expect(process.runs).toEqual([]);
      expect(await queue.inspector.pauses()).toMatchObject({ pauses: [{ scope: 'recovery', untilMs: from + 5000 }] });
      await setting().atRest();
      expect(process.startedAtMs[0]).toBeGreaterThanOrEqual(from + 5000);
      expect(process.startedAtMs[0]).toBeLessThan(from + 5100);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
    });

    it('inside another one keeps its keys when that ends', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.pause('namespace/a');
      await queue.add(plain('a/k'));
      await setting().settle();
      await queue.pause('controller');
      await queue.add(plain('a/k', 'b/k'));
      await setting().settle();
      await queue.resume('controller');
      await setting().pass(100);
      expect(process.keys()).toEqual(['b/k']);
      await queue.resume('namespace/a');
      await setting().atRest();
      expect(process.keys()).toEqual(['b/k', 'a/k']);
    });

    it('begins and ends with what an add says of the object', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.add([{ key: 'a/k', reasons: [], paused: true }]);
      await setting().settle();
      await queue.add([{ key: 'a/k', reasons: [] }]);
      await queue.add([{ key: 'a/l', reasons: [], paused: false }]);
      await setting().settle();
      expect(process.keys()).toEqual(['a/l']);
      expect(await queue.inspector.pauses()).toMatchObject({ pauses: [{ scope: 'object/a/k' }] });
      await queue.add([{ key: 'a/k', reasons: [], paused: false }]);
      await setting().atRest();
      expect(process.keys()).toEqual(['a/l', 'a/k']);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
    });

    it('of a key by a person is not ended by what an add says of the object, and is known while nothing waits', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.pause('key/a/k');
      expect(await queue.inspector.status('a/k')).toMatchObject({ waits: [], pauses: [{ scope: 'key/a/k' }] });
      await queue.add([{ key: 'a/k', reasons: [{ type: 'added' }], paused: true }]);
      await setting().settle();
      expect((await queue.inspector.status('a/k')).pauses.map(({ scope }) => scope)).toEqual(['object/a/k', 'key/a/k']);
      await queue.add([{ key: 'a/k', reasons: [{ type: 'updated' }], paused: false }]);
      await queue.addLow(['a/k'], 'resync');
      await setting().settle();
      expect(await queue.inspector.status('a/k')).toMatchObject({
        waits: [{ by: 'key/a/k' }],
        pauses: [{ scope: 'key/a/k' }],
      });
      expect(process.runs).toEqual([]);
      await queue.resume('key/a/k');
      await setting().atRest();
      expect(process.runs).toMatchObject([{ reasons: [{ type: 'added' }, { type: 'updated' }] }]);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
    });

    it('by the annotation outlasts the one by a person', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.pause('key/a/k');
      await queue.add([{ key: 'a/k', reasons: [], paused: true }]);
      await setting().settle();
      await queue.resume('key/a/k');
      await setting().settle();
      expect(process.runs).toEqual([]);
      await queue.add([{ key: 'a/k', reasons: [], paused: false }]);
      await setting().atRest();
      expect(process.keys()).toEqual(['a/k']);
    });

    it('keeps low keys back without a turn of theirs, and lets them run afterwards', async () => {
      const { queue, process } = setting();
      await queue.pause('namespace/a');
      await queue.addLow([...numbered('a/', 2500), 'b/k'], 'resync');
      await queue.start(process);
      await setting().pass(200);
      expect(process.keys()).toEqual(['b/k']);
      expect((await queue.inspector.list('waiting', { offset: 0, limit: 1 })).total).toBe(2500);
      expect((await queue.inspector.status('a/7')).waits).toEqual([{ reason: 'paused', by: 'namespace/a' }]);
      await queue.resume('namespace/a');
      await setting().atRest();
      expect(process.runs).toHaveLength(2501);
      expect(process.runsOf('a/7')).toMatchObject([{ reasons: [{ type: 'resync' }] }]);
    });

    it('of many lets them go in pieces, behind live keys', async () => {
      const { process, clock } = setting();
      const queue = await setting().open({ concurrency: 1 });
      process.onRun = async () => {
        await clock.sleep(1);
        return done;
      };
      await queue.start(process);
      await queue.pause('controller');
      await queue.add(plain(...numbered('k', 600)));
      await setting().settle();
      await queue.resume('controller');
      await setting().until(() => process.runs.length > 20, 'resumed keys running');
      const before = process.runs.length;
      await queue.add(plain('live'));
      await setting().ran('live');
      expect(process.keys().indexOf('live') - before).toBeLessThanOrEqual(200);
      await setting().atRest();
      expect(process.runs).toHaveLength(601);
    });
  });
}
