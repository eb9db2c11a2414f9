import { describe, expect, it } from 'vitest';
import { boundedIndexes, MOST_OF_TENANT, type UserIndexes } from './backfill.ts';

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
});
