import * as fc from 'fast-check';
import type { Taint, Toleration } from 'levelhook/function/kinds';
import { describe, expect, it } from 'vitest';
import { podOn } from './testing.ts';
import { timeLeftMs, tolerates } from './tolerations.ts';

const taint = (key: string, value?: string): Taint => ({ key, effect: 'NoExecute', ...(value ? { value } : {}) });
const podWith = (...tolerations: Toleration[]) => podOn('n', 'p', { spec: { tolerations } });

describe('tolerates', () => {
  it.each<[Toleration, boolean]>([
    [{ operator: 'Exists' }, true],
    [{ key: 'k', operator: 'Exists' }, true],
    [{ key: 'other', operator: 'Exists' }, false],
    [{ key: 'k', value: 'v' }, true],
    [{ key: 'k', operator: 'Equal', value: 'w' }, false],
    [{ key: 'k', operator: 'Exists', effect: 'NoExecute' }, true],
    [{ key: 'k', operator: 'Exists', effect: 'NoSchedule' }, false],
    [{ key: 'k', operator: 'Gt', value: '1' }, false],
  ])('%j: %s', (toleration, expected) => {
    expect(tolerates(toleration, taint('k', 'v'))).toBe(expected);
  });
});

describe('timeLeftMs', () => {
  const ages = (byKey: Record<string, number>) => (each: Taint) => (byKey[each.key] ?? 0) * 1000;
  // The reader gives integers beyond 2^53 as bigints.
  const of = (key: string, tolerationSeconds?: number | bigint): Toleration =>
    ({ key, operator: 'Exists', ...(tolerationSeconds === undefined ? {} : { tolerationSeconds }) }) as Toleration;

  it('is none without a toleration for each taint', () => {
    expect(timeLeftMs(podWith(of('a')), [taint('a'), taint('b')], () => 0)).toBe(0);
  });

  it('is for ever without a limit', () => {
    expect(timeLeftMs(podWith(of('a')), [taint('a')], () => 1e9)).toBe(Infinity);
  });

  it.each([-1, 0])('is none with %i seconds', (seconds) => {
    expect(timeLeftMs(podWith(of('a', seconds)), [taint('a')], () => 0)).toBe(0);
  });

  it.each([2n ** 53n + 1n, 2n ** 62n + 1n, 2n ** 63n - 1n])('is as long as %i seconds', (seconds) => {
    expect(timeLeftMs(podWith(of('a', seconds)), [taint('a')], () => 1e9)).toBeGreaterThan(1e18);
  });

  it('is the shortest of what is left for each taint', () => {
    const pod = podWith(of('forever'), of('a', 300), of('b', 200));
    const taints = [taint('forever'), taint('a'), taint('b')];
    expect(timeLeftMs(pod, taints, ages({ forever: 5000, a: 150, b: 10 }))).toBe(150_000);
  });

  it('takes the first toleration that covers a taint', () => {
    expect(timeLeftMs(podWith(of('a', 100), of('a')), [taint('a')], ages({ a: 40 }))).toBe(60_000);
  });

  it('shrinks by the time that passes, and by another taint or less tolerance never grows', () => {
    const some = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), seconds: fc.option(fc.nat({ max: 100 })) }));
    const keys = fc.subarray(['a', 'b', 'c'], { minLength: 1 });
    fc.assert(
      fc.property(some, keys, fc.nat({ max: 100 }), fc.nat({ max: 50 }), (given, tainted, age, later) => {
        const pod = podWith(...given.map(({ key, seconds }) => of(key, seconds ?? undefined)));
        const taints = tainted.map((key) => taint(key));
        const left = timeLeftMs(pod, taints, () => age * 1000);
        expect(timeLeftMs(pod, taints, () => (age + later) * 1000)).toBe(Math.max(0, left - later * 1000));
        expect(timeLeftMs(pod, taints.slice(1), () => age * 1000)).toBeGreaterThanOrEqual(left);
      }),
      { numRuns: 500, seed: 58 },
    );
  });
});
