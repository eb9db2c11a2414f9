import { describe, expect, it } from 'vitest';
import { done } from '../../harness/recording-process.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

export function barriersContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('a barrier', () => {
    it('is passed before the next run starts, which is the only one; late ones are told of', async () => {
      const { queue, process } = setting();
      process.holding.add('b');
      process.onRun = () => (process.runs.length === 1 ? { kind: 'known', failures: 'forget', barrier: 'b' } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      await queue.addLow(['k'], 'initial');
      await queue.addAfter('k', 0);
      await setting().pass(900);
      expect(process.runs).toHaveLength(1);
      expect(process.lates).toEqual([]);
      expect((await queue.status('k')).waits).toMatchObject([{ reason: 'barrier' }]);
      await setting().pass(200);
      expect(process.lates).toContain('b');
      expect(process.runs).toHaveLength(1);
      process.holding.clear();
      await setting().pass(50);
      expect(process.runs).toHaveLength(2);
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('that has passed already holds nobody up', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'known', failures: 'forget', barrier: 'b' });
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
      process.holding.add('b');
      process.onRun = () => (process.runs.length === 1 ? { kind: 'known', failures: 'forget', barrier: 'b' } : done);
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await queue.add(plain('k'));
      await setting().settle();
      // Its timer is due in the moment in which the live add comes.
      process.holding.clear();
      setting().clock.step(setting().clock.now() + 20);
      await queue.add(plain('k'));
      await setting().atRest();
      expect(process.runs).toHaveLength(2);
    });

    it('holds against every gateway', async () => {
      const { queue, process } = setting();
      const other = await setting().open();
      const held = setting().newProcess();
      held.holding.add('b');
      process.holding.add('b');
      process.onRun = () => ({ kind: 'known', failures: 'forget', barrier: 'b' });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await other.start(held);
      await other.add(plain('k'));
      await setting().pass(200);
      expect([...held.runs, ...process.runs]).toHaveLength(1);
      process.holding.clear();
      held.holding.clear();
      process.onRun = () => done;
      await setting().atRest();
      expect([...held.runs, ...process.runs]).toHaveLength(2);
    });
  });
}
