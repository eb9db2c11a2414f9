import { describe, expect, it } from 'vitest';
import { boundedIndexes, MOST_OF_TENANT, MOST_PLACES, type UserIndexes } from './backfill.ts';

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
