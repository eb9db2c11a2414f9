import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scaleAnnotations } from './annotations.ts';
import { limitsOf } from './limits.ts';
import { proportionalSizes, scalingSizes, wasResized } from './scaling.ts';
import { byName, revision, webDeployment } from './testing.ts';

const rolling = (replicas: number, maxSurge: number | string = 0) =>
  webDeployment({ replicas, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable: 1 } } });
/** Last scaled for this Deployment. */
const scaledFor = (before: ReturnType<typeof rolling>, version: number, replicas: number) =>
  revision(version, replicas, { annotations: scaleAnnotations(before) });

describe('wasResized', () => {
  const was = (...sets: ReturnType<typeof revision>[]) => wasResized(rolling(5), { current: undefined, old: sets });
  const noted = (text: string) => ({ annotations: { 'deployment.kubernetes.io/desired-replicas': text } });

  it('sees another wish than was noted', () => {
    expect(was(revision(1, 3, noted('5')), revision(2, 2, noted('3')))).toBe(true);
    expect(wasResized(rolling(5), { current: revision(1, 3, noted('3')), old: [] })).toBe(true);
  });

  it('does not look at what has no pods, or no readable note', () => {
    expect(was(revision(1, 0, noted('3')))).toBe(false);
    for (const text of ['', 'x', '-3', '3.5', '2147483648']) expect(was(revision(1, 3, noted(text)))).toBe(false);
  });
});

describe('scalingSizes', () => {
  it('gives all to the only one with pods, whichever it is', () => {
    expect(byName(scalingSizes(rolling(8), { current: revision(2, 0), old: [revision(1, 5)] }))).toEqual({
      'web-1': 8,
    });
  });

  it('gives all to the newest when none has pods', () => {
    const old = [revision(1, 0), revision(2, 0)];
    expect(byName(scalingSizes(rolling(8), { current: undefined, old }))).toEqual({ 'web-2': 8 });
    expect(byName(scalingSizes(rolling(8), { current: revision(3, 0), old }))).toEqual({ 'web-3': 8 });
    expect(scalingSizes(rolling(8), { current: undefined, old: [] })).toEqual([]);
  });

  it('takes the old ones away when the current one has all', () => {
    const current = scaledFor(rolling(5), 2, 5);
    expect(byName(scalingSizes(rolling(5), { current, old: [revision(1, 2)] }))).toEqual({ 'web-1': 0 });
  });

  it('leaves several as they are for Recreate', () => {
    const recreate = webDeployment({ replicas: 8, strategy: { type: 'Recreate' } });
    const sizes = scalingSizes(recreate, { current: scaledFor(rolling(3), 2, 1), old: [revision(1, 2)] });
    expect(byName(sizes)).toEqual({ 'web-1': 2, 'web-2': 1 });
  });

  it('writes no annotation of a right size for another surge or strategy, as the built-in controller', () => {
    const [before, after] = [rolling(5, 0), rolling(5, 1)];
    expect(scalingSizes(after, { current: scaledFor(before, 1, 5), old: [] })).toEqual([]);
    expect(scalingSizes(after, { current: scaledFor(before, 2, 0), old: [scaledFor(before, 1, 5)] })).toEqual([]);
    expect(byName(scalingSizes(after, { current: scaledFor(rolling(4), 1, 5), old: [] }))).toEqual({ 'web-1': 5 });
    const recreate = webDeployment({ replicas: 5, strategy: { type: 'Recreate' } });
    const several = { current: scaledFor(rolling(5, 1), 2, 2), old: [scaledFor(rolling(5, 1), 1, 3)] };
    expect(scalingSizes(recreate, several)).toEqual([]);
  });
});

describe('proportionalSizes', () => {
  // The cases of Kubernetes' documentation, and of its own tests.
  it.each<[string, number, number, number, Record<string, number>, Record<string, number>]>([
    ['10 to 15 with a surge of 3', 10, 15, 3, { 8: 8, 5: 5 }, { 8: 11, 5: 7 }],
    ['up, the newer of equals takes what is left', 10, 16, 0, { 1: 5, 2: 5 }, { 1: 8, 2: 8 }],
    ['up by one, the newer', 10, 11, 0, { 1: 5, 2: 5 }, { 1: 5, 2: 6 }],
    ['down by one, the older', 10, 9, 0, { 1: 5, 2: 5 }, { 1: 4, 2: 5 }],
    ['down to zero', 10, 0, 0, { 1: 3, 2: 3, 3: 4 }, { 1: 0, 2: 0, 3: 0 }],
    ['as it was', 10, 10, 2, { 1: 7, 2: 5 }, { 1: 7, 2: 5 }],
  ])('%s', (_, before, after, surge, has, gets) => {
    const sets = Object.entries(has).map(([version, replicas]) =>
      scaledFor(rolling(before, surge), Number(version), replicas),
    );
    const named = Object.fromEntries(Object.entries(gets).map(([version, replicas]) => [`web-${version}`, replicas]));
    expect(byName(proportionalSizes(rolling(after, surge), sets))).toEqual(named);
  });

  it('goes by the number of pods when nobody noted what was allowed, and leaves them when there are none', () => {
    const plain = { ...rolling(20), status: { replicas: 10 } };
    expect(byName(proportionalSizes(plain, [revision(1, 6), revision(2, 4)]))).toEqual({ 'web-1': 12, 'web-2': 8 });
    expect(byName(proportionalSizes(rolling(20), [revision(1, 6), revision(2, 4)]))).toEqual({
      'web-1': 16,
      'web-2': 4,
    });
  });

  const counts = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 2, maxLength: 6 });

  it('hands out exactly what is allowed, or when there is too much to take from the largest, no more than there was', () => {
    fc.assert(
      fc.property(counts, fc.nat(60), fc.nat(60), fc.nat(100), (has, before, after, percent) => {
        const surge = `${percent}%`;
        const deployment = rolling(after, surge);
        const sets = has.map((replicas, index) => scaledFor(rolling(before, surge), index + 1, replicas));
        const sizes = proportionalSizes({ ...deployment, status: { replicas: before } }, sets);
        const total = (list: readonly { replicas: number }[]): number =>
          list.reduce((sum, { replicas }) => sum + replicas, 0);
        const allowed = after === 0 ? 0 : after + limitsOf(deployment).maxSurge;
        const there = has.reduce((sum, replicas) => sum + replicas, 0);
        if (sizes[0]?.replicas !== 0) expect(total(sizes)).toBe(allowed);
        if (allowed >= there) expect(total(sizes)).toBe(allowed);
        expect(sizes.every(({ replicas }) => replicas >= 0)).toBe(true);
        if (after === 0) expect(total(sizes)).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });
});
