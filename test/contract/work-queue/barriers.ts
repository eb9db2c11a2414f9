import { describe, expect, it } from 'vitest';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

export function barriersContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a barrier', () => {
    it('is passed before the next run starts, which is the only one; late ones are told of', async () => {
      const { queue, process } = setting();
      process.unpassed.add('b');
      process.onRun = () => (process.runs.length === 1 ? { kind: 'ended', failures: 'forget', barrier: 'b' } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      await queue.addLow(['k'], 'initial');
      await queue.addAfter('k', 0);
      await setting().pass(900);
      expect(process.runs).toHaveLength(1);
      expect(process.lates).toEqual([]);
      expect((await queue.inspector.status('k')).waits).toMatchObject([{ reason: 'barrier' }]);
      await setting().pass(400);
      expect(process.lates).toContain('b');
      expect(process.runs).toHaveLength(1);
      process.unpassed.clear();
      await setting().pass(200);
      expect(process.runs).toHaveLength(2);
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('is checked the less often the longer it waits', async () => {
      const { queue, process } = setting();
      const checkedMs: number[] = [];
      process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b' });
      process.passed = async () => {
        checkedMs.push(setting().clock.now());
        return false;
      };
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      const fromMs = setting().clock.now();
      await queue.add(plain('k'));
      await setting().pass(3000);
      const within = (ms: number): number => checkedMs.filter((atMs) => atMs <= fromMs + ms).length;
      expect(within(100)).toBeGreaterThan(2);
      expect(within(3000)).toBeGreaterThan(10);
      expect(within(3000)).toBeLessThan(45);
    });

    it('that has passed already delays no key', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      for (let at = 1; at <= 5; at += 1) {
        await queue.add(plain('k'));
        await setting().settle();
        expect(process.runs).toHaveLength(at);
      }
      await setting().atRest();
      expect(process.runs).toHaveLength(5);
    });

    it('is no cause for a second run beside that of a live add', async () => {
      const { queue, process } = setting();
      process.unpassed.add('b');
      process.onRun = () => (process.runs.length === 1 ? { kind: 'ended', failures: 'forget', barrier: 'b' } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      await setting().settle();
      // Its timer is due in the moment in which the live add comes.
      process.unpassed.clear();
      setting().clock.step(setting().clock.now() + 20);
      await queue.add(plain('k'));
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('keeps its key waiting for as long as it has not passed, through a day and more', async () => {
      const { queue, process, clock } = setting();
      process.unpassed.add('b');
      process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      // Looked at, and not passed.
      await setting().pass(130_000);
      await queue.stop(1000);
      clock.step(clock.now() + 86_400_000);
      const next = await setting().open();
      const after = setting().newProcess();
      after.unpassed.add('b');
      await next.start(after);
      await next.add(plain('k'));
      await setting().pass(1000);
      expect(after.runs).toEqual([]);
      expect((await next.inspector.status('k')).waits).toMatchObject([{ reason: 'barrier' }]);
      after.unpassed.clear();
      await setting().pass(50);
      expect(after.keys()).toEqual(['k']);
    });

    it('that has passed leaves nothing behind of a key at rest', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) => ({ kind: 'ended', failures: 'forget', barrier: key });
      process.unpassed.add('late');
      await queue.start(process);
      await queue.add(plain('k', 'late', 'again'));
      await setting().pass(50_000);
      await queue.add(plain('again'));
      await setting().pass(50_000);
      // One waits still, one has run just now.
      expect(await setting().records()).toBe(2);
      process.unpassed.clear();
      await setting().pass(100_000);
      expect(await setting().records()).toBe(0);
      expect(process.runs).toHaveLength(4);
    });

    it('that cannot be checked keeps no other key at rest on record', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) => ({ kind: 'ended', failures: 'forget', barrier: key });
      const unreadable = new Set(['broken']);
      process.passed = async (barrier) => {
        if (unreadable.has(barrier)) throw new Error('no such view');
        return true;
      };
      await queue.start(process);
      await queue.add(plain('k', 'broken', 'l'));
      await setting().pass(100_000);
      expect(await setting().records()).toBe(1);
      expect((await queue.inspector.status('broken')).waits).toEqual([]);
      const troubles = setting().takeTroubles();
      expect(troubles[0]).toContain('a part of the work queue failed');
      // The key is postponed: its barrier is checked once a minute and not at every look.
      await setting().pass(120_000);
      expect(setting().takeTroubles().length).toBeLessThanOrEqual(2);
      unreadable.clear();
      await setting().pass(100_000);
      expect(await setting().records()).toBe(0);
      expect(process.runs).toHaveLength(3);
    });

    it('of a dead letter is forgotten with it, once it has passed', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'ended', failures: 'keep', barrier: 'b', dead: true });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await setting().pass(100_000);
      expect(await setting().records()).toBe(1);
      expect(await queue.drop(['k'])).toBe(1);
      await setting().pass(100_000);
      expect(await setting().records()).toBe(0);
    });

    it('counts for every gateway', async () => {
      const { queue, process } = setting();
      const other = await setting().open();
      const waiting = setting().newProcess();
      waiting.unpassed.add('b');
      process.unpassed.add('b');
      process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await other.start(waiting);
      await other.add(plain('k'));
      await setting().pass(200);
      expect([...waiting.runs, ...process.runs]).toHaveLength(1);
      process.unpassed.clear();
      waiting.unpassed.clear();
      process.onRun = () => done;
      await setting().atRest();
      expect([...waiting.runs, ...process.runs]).toHaveLength(2);
    });
  });
}
