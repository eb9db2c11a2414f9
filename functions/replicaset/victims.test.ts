import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pod, readyFrom } from '../lib/testing.ts';
import { chooseVictims, compareVictims, type RankedPod } from './victims.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();
const cost = (value: string) => ({ annotations: { 'controller.kubernetes.io/pod-deletion-cost': value } });
const restarted = (restartCount: number) => ({ containerStatuses: [{ name: 'main', restartCount }] });
const sidecarRestarted = (restartCount: number) => ({
  spec: { nodeName: 'n', initContainers: [{ name: 'proxy', restartPolicy: 'Always' }, { name: 'setup' }] },
  status: {
    ...readyFrom(ago(1000)),
    initContainerStatuses: [
      { name: 'proxy', restartCount },
      { name: 'setup', restartCount: 9 - restartCount },
    ],
  },
});

type Parts = NonNullable<Parameters<typeof pod>[1]>;

/** A ready pod on a node; its UID begins with its name. */
function ranked(name: string, { metadata, spec, status }: Parts = {}, neighbours = 1): RankedPod {
  const parts = {
    metadata: { creationTimestamp: ago(2000), ...metadata },
    spec: { nodeName: 'n', ...spec },
    status: { ...readyFrom(ago(1000)), ...status },
  };
  return { pod: pod(name, parts), neighbours };
}

describe('compareVictims', () => {
  // The first of each pair is deleted first, though each later rule and the UID would choose the other.
  const worst: Parts = { metadata: cost('-5'), status: { phase: 'Pending', conditions: [], ...restarted(9) } };
  it.each<[string, RankedPod, RankedPod]>([
    ['1: no node', ranked('z', { spec: { nodeName: '' } }), ranked('a', worst, 9)],
    [
      '2: pending before unknown',
      ranked('z', { status: { phase: 'Pending' } }),
      ranked('a', { ...worst, status: { phase: 'Unknown', conditions: [] } }, 9),
    ],
    [
      '2: unknown before running',
      ranked('z', { status: { phase: 'Unknown' } }),
      ranked('a', { ...worst, status: { phase: 'Running', conditions: [] } }, 9),
    ],
    [
      '3: not ready',
      ranked('z', { status: { conditions: [] } }),
      ranked('a', { metadata: cost('-5'), status: restarted(9) }, 9),
    ],
    ['4: cheaper', ranked('z', { metadata: cost('-1') }), ranked('a', { status: restarted(9) }, 9)],
    ['5: more neighbours', ranked('z', {}, 2), ranked('a', { status: { ...readyFrom(ago(1)), ...restarted(9) } }, 1)],
    ['6: ready for less time', ranked('z', { status: readyFrom(ago(100)) }), ranked('a', { status: restarted(9) })],
    [
      '6: ready since nobody knows when',
      ranked('z', { status: readyFrom(null) }),
      ranked('a', { status: restarted(9) }),
    ],
    [
      '7: more restarts',
      ranked('z', { status: restarted(2) }),
      ranked('a', { metadata: { creationTimestamp: ago(1) }, status: restarted(1) }),
    ],
    [
      '7: more restarts of a sidecar',
      ranked('z', sidecarRestarted(2)),
      ranked('a', { ...sidecarRestarted(1), metadata: { creationTimestamp: ago(1) } }),
    ],
    ['8: newer', ranked('z', { metadata: { creationTimestamp: ago(100) } }), ranked('a')],
    ['8: never created', ranked('z', { metadata: { creationTimestamp: undefined } }), ranked('a')],
    ['the UID, when nothing differs', ranked('a'), ranked('z')],
  ])('rule %s', (_, first, second) => {
    expect(compareVictims(first, second, now)).toBeLessThan(0);
    expect(compareVictims(second, first, now)).toBeGreaterThan(0);
  });

  it('lets the UID decide between ages of the same power of two', () => {
    // 2^40 nanoseconds are 1099.5 seconds.
    const ready = (name: string, seconds: number) => ranked(name, { status: readyFrom(ago(seconds)) });
    expect(compareVictims(ready('a', 1090), ready('z', 600), now)).toBeLessThan(0);
    expect(compareVictims(ready('a', 1110), ready('z', 1090), now)).toBeGreaterThan(0);
  });

  it.each([
    ['10', '9'],
    ['0', '-1'],
    ['1', '+1'],
    ['1', '007'],
    ['1', 'many'],
    ['1', '4294967295'],
    ['2147483647', '0'],
  ])('finds %s dearer than %s', (dear, cheap) => {
    expect(
      compareVictims(ranked('a', { metadata: cost(dear) }), ranked('z', { metadata: cost(cheap) }), now),
    ).toBeGreaterThan(0);
  });

  it('tells any two pods apart, the same way from both sides', () => {
    const time = fc.option(fc.integer({ min: -5, max: 4000 }).map(ago), { nil: null });
    const anyPod = fc
      .record({
        uid: fc.string({ minLength: 1, maxLength: 3 }),
        nodeName: fc.constantFrom('', 'n', 'm'),
        phase: fc.constantFrom('Pending', 'Unknown', 'Running', ''),
        ready: fc.option(time, { nil: undefined }),
        cost: fc.constantFrom('0', '1', '-1', 'x'),
        restartCount: fc.nat(2),
        creationTimestamp: time,
        neighbours: fc.nat(2),
      })
      .map(({ uid, nodeName, phase, ready, cost: value, restartCount, creationTimestamp, neighbours }) => {
        const conditions = ready === undefined ? { conditions: [] } : readyFrom(ready);
        const status = { phase, ...conditions, ...restarted(restartCount) };
        return ranked(
          'p',
          { metadata: { uid, creationTimestamp, ...cost(value) }, spec: { nodeName }, status },
          neighbours,
        );
      });
    // A failure prints its seed and path; pass them to `fc.assert` to see it again.
    fc.assert(
      fc.property(anyPod, anyPod, (a, b) => {
        const there = Math.sign(compareVictims(a, b, now));
        const back = Math.sign(compareVictims(b, a, now));
        expect(there + back).toBe(0);
        if (a.pod.metadata.uid !== b.pod.metadata.uid) expect(there).not.toBe(0);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('chooseVictims', () => {
  it('takes from the node with the most related active pods, whoever owns them', () => {
    const on = (name: string, nodeName: string, status = {}) => pod(name, { spec: { nodeName }, status });
    const own = [on('a', 'x'), on('b', 'y'), on('c', 'z')];
    const related = [...own, on('d', 'y'), on('e', 'z', { phase: 'Failed' }), on('f', 'z', { phase: 'Succeeded' })];
    expect(chooseVictims(own, related, 1, now)).toEqual([own[1]]);
  });
});
