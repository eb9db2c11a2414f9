import { expect, it } from 'vitest';
import { DEMAND_AHEAD_MS } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { type CreateFixture, eachSetting, plain } from './setting.ts';

/** A scaler must see each key that needs an instance of the function, and no other. */
export function demandContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  it('counts keys that are ready, low, in flight, or due soon, and none at rest', async () => {
    const { queue, process } = setting();
    expect((await queue.inspector.levels()).demand).toBe(0);
    await queue.add(plain('ready'));
    await queue.addLow(['low'], 'resync');
    await queue.addAfter('soon', DEMAND_AHEAD_MS);
    await queue.addAfter('late', DEMAND_AHEAD_MS + 60_000);
    // Of ready and due keys the greater number.
    expect((await queue.inspector.levels()).demand).toBe(2);
    const blocked = setting().blockRuns('ready');
    await queue.start(process);
    await setting().ran('ready');
    await setting().ran('low');
    // In flight, and due soon.
    expect((await queue.inspector.levels()).demand).toBe(2);
    blocked.release();
    await setting().pass(DEMAND_AHEAD_MS + 1000);
    expect(process.keys()).toContain('soon');
    expect((await queue.inspector.levels()).demand).toBe(0);
    await setting().pass(60_000);
    expect(process.keys()).toContain('late');
    expect((await queue.inspector.levels()).demand).toBe(0);
  });

  it('leaves out keys of a pause', async () => {
    const { queue, process } = setting();
    await queue.pause('controller');
    await queue.start(process);
    await queue.add(plain('ready'));
    await queue.addLow(['low'], 'resync');
    await setting().settle();
    expect((await queue.inspector.levels()).demand).toBe(0);
    await queue.resume('controller');
    await setting().atRest();
    expect(process.keys().toSorted()).toEqual(['low', 'ready']);
  });
}
