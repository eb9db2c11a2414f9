import { describe, expect, it } from 'vitest';
import { type LogFields, silentLogger, systemClock } from '../../../core/index.ts';
import { Backfill, boundedIndexes, MOST_OF_TENANT, MOST_PLACES, type UserIndexes } from './backfill.ts';
import type { View } from './view.ts';

const NEEDED = 'annotation:paused';
const user = (tenant: string | undefined, count: number, name: string): UserIndexes => ({
  specs: Array.from({ length: count }, (_, at) => `field:spec.${name}${String(at).padStart(4, '0')}` as const),
  needed: [NEEDED],
  tenant,
});

describe('the indexes of a view', () => {
  it('are all that its users declare, each once', () => {
    const { kept, left } = boundedIndexes([user('a', 2, 'x'), user('b', 3, 'x'), user(undefined, 1, 'y')]);
    expect(kept).toEqual([NEEDED, 'field:spec.x0000', 'field:spec.x0001', 'field:spec.x0002', 'field:spec.y0000']);
    expect(left).toEqual([]);
  });

  it('are bounded for each tenant, for many functions as for one', () => {
    const one = boundedIndexes([user('a', 100, 'x'), user('b', 1, 'y')]);
    const many = boundedIndexes([
      ...Array.from({ length: 50 }, (_, at) => user('a', 16, `x${at}-`)),
      user('b', 1, 'y'),
    ]);
    for (const { kept, left } of [one, many]) {
      expect(kept.filter((spec) => spec.startsWith('field:spec.x'))).toHaveLength(MOST_OF_TENANT);
      expect(kept).toEqual(expect.arrayContaining([NEEDED, 'field:spec.y0000']));
      expect(left.length).toBeGreaterThan(0);
    }
  });

  it('of one tenant beyond its bound are made when another declares them', () => {
    const beyond = user('a', 100, 'x');
    const last = beyond.specs.at(-1)!;
    const { kept, left } = boundedIndexes([beyond, { specs: [last], tenant: 'b' }]);
    expect(kept).toContain(last);
    expect(left).not.toContain(last);
  });

  it('have no bound for functions that the operator has configured', () => {
    expect(boundedIndexes([user(undefined, 500, 'x')]).kept).toHaveLength(501);
  });

  it('are made of the namespaces that their users may read, unless another user may read all', () => {
    const of = (...namespaces: string[]): UserIndexes => ({ ...user('a', 1, 'x'), namespaces });
    const scoped = boundedIndexes([of('m', 'n'), { ...of('n', 'o'), tenant: 'b' }]);
    expect(scoped.kept).toEqual([NEEDED, ...['m', 'n', 'o'].map((each) => `${each}/field:spec.x0000`)]);
    expect(boundedIndexes([of('m', 'n'), user('b', 1, 'x')]).kept).toEqual([NEEDED, 'field:spec.x0000']);
  });

  it('of many namespaces are bounded as well', () => {
    const namespaces = Array.from({ length: 100 }, (_, at) => `team-${at}`);
    const { kept, left } = boundedIndexes([{ ...user('a', 16, 'x'), namespaces }]);
    expect(kept.length - 1).toBe(200);
    expect(kept.length - 1).toBeLessThanOrEqual(MOST_PLACES);
    expect(left).toHaveLength(1400);
  });
});

describe('the log of indexes beyond the bound', () => {
  const indexes = new Map<string, UserIndexes>();
  const lines: LogFields[] = [];
  const clock = { ...systemClock, now: () => 0 };

  /** Logs at each start; it fills nothing, because its work has ended. */
  function create(): Backfill {
    indexes.clear();
    lines.length = 0;
    return new Backfill({
      view: { name: 'v1/Pod' } as View,
      indexes,
      started: Promise.resolve(),
      applied: () => Promise.resolve(),
      clock,
      logger: { ...silentLogger, warn: (fields) => lines.push(fields) },
      signal: AbortSignal.abort(),
    });
  }

  async function start(backfill: Backfill): Promise<void> {
    backfill.start();
    await backfill.finished;
  }

  it('has a line when they change, which names a few of them', async () => {
    const backfill = create();
    indexes.set('a', user('a', 100, 'x'));
    await start(backfill);
    await start(backfill);
    expect(lines).toEqual([
      { resource: 'v1/Pod', indexes: expect.toSatisfy((named: string[]) => named.length === 10), more: 26 },
    ]);
    indexes.set('a', user('a', 101, 'x'));
    await start(backfill);
    expect(lines.map(({ more }) => more)).toEqual([26, 27]);
  });

  it('has no more lines than people read, however often they change', async () => {
    const backfill = create();
    for (let at = 0; at < 100; at += 1) {
      indexes.set('a', user('a', 100 + at, 'x'));
      await start(backfill);
    }
    expect(lines).toHaveLength(10);
  });
});
