import { describe, expect, it } from 'vitest';
import { TenantTurns } from './tenant-turns.ts';

describe('TenantTurns', () => {
  it('lets a task wait for at most one of each other tenant', async () => {
    const turns = new TenantTurns(2);
    const order: string[] = [];
    const give = (tenant: string, name: string): Promise<void> =>
      turns.run(tenant, async () => {
        order.push(name);
        await Promise.resolve();
      });
    const many = Array.from({ length: 100 }, (_, at) => give('many.', `many-${at}`));
    const few = ['few-0', 'few-1'].map((name) => give('few.', name));
    const other = give('other.', 'other');
    await Promise.all([...many, ...few, other]);
    expect(order.slice(0, 8)).toEqual(['many-0', 'many-1', 'many-2', 'few-0', 'other', 'many-3', 'few-1', 'many-4']);
    expect(order.filter((name) => name.startsWith('many'))).toEqual(many.map((_, at) => `many-${at}`));
  });

  it('leaves room for others however many tasks of a tenant never end', async () => {
    const turns = new TenantTurns(4, 2);
    const begun: string[] = [];
    const begin = (tenant: string, name: string, ended: Promise<void>): Promise<void> =>
      turns.run(tenant, async () => {
        begun.push(name);
        await ended;
      });
    const { promise: never, resolve: end } = Promise.withResolvers<void>();
    const many = Array.from({ length: 100 }, (_, at) => begin('many.', `many-${at}`, never));
    for (let at = 0; at < 5; at += 1) await begin('other.', `other-${at}`, Promise.resolve());
    expect(begun).toEqual(['many-0', 'many-1', 'other-0', 'other-1', 'other-2', 'other-3', 'other-4']);
    end();
    await Promise.all(many);
    expect(begun).toHaveLength(105);
  });

  it('runs no more tasks at a time than it may, and gives the place of a failed one on', async () => {
    const turns = new TenantTurns(2);
    let running = 0;
    let most = 0;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, at) =>
        turns.run(`${at % 3}.`, async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
          if (at % 4 === 0) throw new Error(`${at}`);
        }),
      ),
    );
    expect(most).toBe(2);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(5);
    await expect(turns.run('0.', async () => 'next')).resolves.toBe('next');
  });
});
