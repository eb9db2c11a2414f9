import * as fc from 'fast-check';
import type { Taint } from 'levelhook/function/kinds';
import { describe, expect, it } from 'vitest';
import { followingLabels } from './labels.ts';
import { settingsOf } from './settings.ts';
import { mirroredTaints, NOT_READY, timestamp, UNREACHABLE, withLostTaint } from './taints.ts';
import { lost, node } from './testing.ts';

const now = '2026-01-01T12:00:00Z';
const noSchedule = (key: string): Taint => ({ key, effect: 'NoSchedule', timeAdded: now });
const theirs: Taint = { key: 'gpu', effect: 'NoSchedule' };

describe('mirroredTaints', () => {
  it('adds what the conditions ask for, and removes what they do not, of its own taints alone', () => {
    const of = node('n', { ready: 'Unknown', taints: [theirs, noSchedule(NOT_READY), lost('not-ready')] });
    of.status?.conditions?.push({ type: 'NetworkUnavailable', status: 'True' }, { type: 'Other', status: 'True' });
    expect(mirroredTaints(of, now)).toEqual([
      theirs,
      lost('not-ready'),
      noSchedule(UNREACHABLE),
      noSchedule('node.kubernetes.io/network-unavailable'),
    ]);
  });

  it('has a taint for an unschedulable node', () => {
    const of = node('n');
    of.spec = { unschedulable: true };
    expect(mirroredTaints(of, now)).toEqual([noSchedule('node.kubernetes.io/unschedulable')]);
  });

  it('is still once it is done, whatever the conditions', () => {
    const type = fc.constantFrom('Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable', 'X');
    const condition = fc.record({ type, status: fc.constantFrom('True', 'False', 'Unknown') });
    const conditions = fc.uniqueArray(condition, { selector: (each) => each.type });
    fc.assert(
      fc.property(
        conditions,
        fc.boolean(),
        fc.subarray([theirs, noSchedule(NOT_READY), lost('x')]),
        (all, off, taints) => {
          const of = { ...node('n'), spec: { taints, unschedulable: off }, status: { conditions: all } };
          const first = mirroredTaints(of, now);
          const done = { ...of, spec: { ...of.spec, taints: first ?? taints } };
          expect(mirroredTaints(done, now)).toBeUndefined();
          const others = (each: readonly Taint[]) =>
            each.filter((one) => one.key === 'gpu' || one.effect === 'NoExecute');
          expect(others(done.spec.taints)).toEqual(others(taints));
        },
      ),
      { numRuns: 300, seed: 58 },
    );
  });
});

describe('withLostTaint', () => {
  it('keeps the time of the taint that it replaces, and the taints of others', () => {
    const of = node('n', { taints: [theirs, lost('not-ready', 'before')] });
    expect(withLostTaint(of, UNREACHABLE, now)).toEqual([theirs, lost('unreachable', 'before')]);
    expect(withLostTaint(of, undefined, now)).toEqual([theirs]);
    expect(withLostTaint(node('n'), NOT_READY, now)).toEqual([lost('not-ready', now)]);
  });
});

it('timestamps have whole seconds', () => {
  expect(timestamp(Date.parse(now) + 999)).toBe(now);
});

it('the old labels follow the stable ones', () => {
  const labels = { 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'arm64', 'beta.kubernetes.io/arch': 'amd64' };
  expect(followingLabels(node('n', { labels }))).toEqual({
    'beta.kubernetes.io/os': 'linux',
    'beta.kubernetes.io/arch': 'arm64',
  });
  expect(followingLabels(node('n', { labels: { 'beta.kubernetes.io/os': 'x' } }))).toBeUndefined();
  expect(followingLabels(node('n'))).toBeUndefined();
});

describe('settingsOf', () => {
  it('are those of kube-controller-manager, and what the environment says', () => {
    expect(settingsOf({ NODE_MONITOR_GRACE_SECONDS: '2.5' })).toMatchObject({
      monitorGraceSeconds: 2.5,
      evictionRate: 0.1,
    });
  });

  it('refuse what is no number', () => {
    expect(() => settingsOf({ NODE_EVICTION_RATE: 'fast' })).toThrow('NODE_EVICTION_RATE must be a number, not "fast"');
  });
});
