import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limitsOf } from './limits.ts';
import { currentReplicas, rollingStep } from './rolling.ts';
import { byName, revision, webDeployment } from './testing.ts';

const rolling = (replicas: number, maxSurge: number | string, maxUnavailable: number | string) =>
  webDeployment({ replicas, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } } });

describe('currentReplicas', () => {
  it.each([
    ['all at once when there is nothing else', 10, 0, 0, 10],
    ['none while the surge is used up', 10, 0, 13, 0],
    ['as many as the surge allows', 10, 2, 11, 4],
    ['never more than are wanted', 10, 9, 10, 10],
    ['what is wanted when there are more', 10, 12, 12, 10],
    ['what it has while there are too many in all', 10, 2, 20, 2],
  ])('%s', (_, wanted, has, total, replicas) => {
    expect(currentReplicas(rolling(wanted, 3, 2), has, total)).toBe(replicas);
  });
});

describe('rollingStep', () => {
  const step = (
    deployment: ReturnType<typeof rolling>,
    current: ReturnType<typeof revision>,
    old: (typeof current)[],
  ) => byName(rollingStep(deployment, current, old));
  const unready = { status: { availableReplicas: 0 } };

  it('grows before it shrinks', () => {
    expect(step(rolling(10, 3, 2), revision(2, 0), [revision(1, 10)])).toEqual({ 'web-2': 3 });
  });

  it('shrinks the old by what may be unavailable, while the new are not available', () => {
    expect(step(rolling(10, 3, 2), revision(2, 3, unready), [revision(1, 10)])).toEqual({ 'web-1': 8 });
    expect(step(rolling(10, 3, 2), revision(2, 5, unready), [revision(1, 8)])).toEqual({});
  });

  it('shrinks the oldest first, and those that are not available before all', () => {
    const old = [revision(1, 4), revision(2, 4, { status: { availableReplicas: 1 } })];
    expect(step(rolling(10, 0, 5), revision(3, 2), old)).toEqual({ 'web-1': 2, 'web-2': 1 });
  });

  it('takes away what can never start, so that an undo does not wait for it', () => {
    const broken = revision(2, 5, unready);
    expect(step(rolling(10, 3, 2), revision(1, 8), [broken])).toEqual({ 'web-2': 0 });
    expect(step(rolling(10, 3, 2), revision(1, 8, { status: { availableReplicas: 7 } }), [broken])).toEqual({
      'web-2': 1,
    });
  });

  it('does not count pods that are on their way out as available', () => {
    // Its status is from before it was scaled down.
    const lagging = revision(1, 3, { status: { replicas: 5, availableReplicas: 5 } });
    expect(step(rolling(10, 1, 2), revision(2, 8, { status: { availableReplicas: 5 } }), [lagging])).toEqual({});
  });

  it('brings the current revision down to what is wanted', () => {
    expect(step(rolling(3, 1, 1), revision(2, 5), [revision(1, 1)])).toEqual({ 'web-2': 3 });
  });

  const value = fc.oneof(
    fc.nat(12),
    fc.nat(100).map((percent) => `${percent}%`),
  );
  const sized = fc
    .tuple(fc.nat(12), fc.nat(12))
    .map(([replicas, available]) => ({ replicas, available: Math.min(replicas, available) }));

  it('never goes beyond the surge, nor below what must be available, by what it does', () => {
    fc.assert(
      fc.property(
        fc.nat(20),
        value,
        value,
        sized,
        fc.array(sized, { maxLength: 4 }),
        (wanted, surge, unavailable, now, before) => {
          const deployment = rolling(wanted, surge, unavailable);
          const make = (version: number, { replicas, available }: typeof now) =>
            revision(version, replicas, { status: { availableReplicas: available } });
          const current = make(9, now);
          const old = before.map((each, index) => make(index + 1, each));
          const sizes = new Map(rollingStep(deployment, current, old).map(({ rs, replicas }) => [rs, replicas]));

          const all = [current, ...old];
          const size = (rs: typeof current): number => sizes.get(rs) ?? rs.spec.replicas;
          const sum = (of: (rs: typeof current) => number): number => all.reduce((total, rs) => total + of(rs), 0);
          const { maxSurge, maxUnavailable } = limitsOf(deployment);
          // A ReplicaSet deletes unavailable pods first.
          const left = sum((rs) => Math.min(rs.status.availableReplicas ?? 0, size(rs)));
          const available = sum((rs) => rs.status.availableReplicas ?? 0);

          expect(sum(size)).toBeLessThanOrEqual(
            Math.max(
              wanted + maxSurge,
              sum((rs) => rs.spec.replicas),
            ),
          );
          if (current.spec.replicas <= wanted)
            expect(left).toBeGreaterThanOrEqual(Math.min(available, wanted - maxUnavailable));
          for (const rs of old) expect(size(rs)).toBeLessThanOrEqual(rs.spec.replicas);
          for (const rs of all) expect(size(rs)).toBeGreaterThanOrEqual(0);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
