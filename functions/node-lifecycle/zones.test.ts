import * as fc from 'fast-check';
import type { Node } from 'levelhook/function/kinds';
import { describe, expect, it } from 'vitest';
import { DEFAULT_SETTINGS } from './settings.ts';
import { NOT_READY, timestamp, UNREACHABLE, withLostTaint } from './taints.ts';
import { lost, node } from './testing.ts';
import { planZones, stateOf, zoneOf } from './zones.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const ago = (seconds: number): string => timestamp(now - seconds * 1000);
const inZone = (zone: string) => ({ labels: { 'topology.kubernetes.io/zone': zone } });
const many = (count: number, of: (at: number) => Node): Node[] => Array.from({ length: count }, (_, at) => of(at));
const ready = (count: number, zone = 'a'): Node[] => many(count, (at) => node(`ready-${zone}${at}`, inZone(zone)));
const unknown = (count: number, zone = 'a'): Node[] =>
  many(count, (at) => node(`lost-${zone}${at}`, { ready: 'Unknown', since: ago(100 - at), ...inZone(zone) }));
const plan = (...nodes: Node[]) => planZones(nodes, DEFAULT_SETTINGS, now);
/** The plan without its spares. */
const due = ({ taints, nextMs }: ReturnType<typeof planZones>) => ({ taints, nextMs });
const named = ({ taints }: ReturnType<typeof planZones>) =>
  taints.map(({ node: { metadata }, key }) => [metadata.name, key]);

describe('stateOf', () => {
  it.each([
    [0, 1, 'full-disruption'],
    [1, 0, 'normal'],
    // At least three, and at least 55 %.
    [1, 2, 'normal'],
    [1, 3, 'partial-disruption'],
    [9, 11, 'partial-disruption'],
    [10, 11, 'normal'],
    [0, 0, undefined],
  ])('%i ready and %i not: %s', (up, down, state) => {
    expect(stateOf([...ready(up), ...unknown(down)], DEFAULT_SETTINGS)).toBe(state);
  });

  it('does not count nodes that are excluded; counts those that never reported', () => {
    const excluded = node('x', { ready: 'Unknown', labels: { 'node.kubernetes.io/exclude-disruption': '' } });
    expect(stateOf([excluded], DEFAULT_SETTINGS)).toBeUndefined();
    expect(stateOf([node('x', { ready: null })], DEFAULT_SETTINGS)).toBe('full-disruption');
  });
});

describe('zoneOf', () => {
  it('is region and zone, by the old labels first', () => {
    const labels = { 'topology.kubernetes.io/region': 'r', 'topology.kubernetes.io/zone': 'z' };
    expect(zoneOf(node('x', { labels }))).toBe('r\0z');
    expect(zoneOf(node('x', { labels: { ...labels, 'failure-domain.beta.kubernetes.io/zone': 'old' } }))).toBe(
      'r\0old',
    );
    expect(zoneOf(node('x'))).toBe('\0');
  });
});

describe('planZones', () => {
  it('taints the node that was lost first, and looks again after ten seconds', () => {
    expect(named(plan(...ready(9), ...unknown(2)))).toEqual([['lost-a0', UNREACHABLE]]);
    expect(plan(...ready(9), ...unknown(2)).nextMs).toBe(10_000);
    expect(plan(...ready(9), ...unknown(1)).nextMs).toBeUndefined();
  });

  it('names the nodes that come next in each zone, ten at most, and none where no node may be tainted', () => {
    const next = (zone: string, { spares }: ReturnType<typeof planZones>) =>
      (spares.get(`\0${zone}`) ?? []).map(({ node: { metadata }, key }) => [metadata.name, key]);
    const two = plan(...ready(19), ...unknown(3), ...ready(9, 'b'), ...unknown(2, 'b'));
    expect(next('a', two)).toEqual([
      ['lost-a1', UNREACHABLE],
      ['lost-a2', UNREACHABLE],
    ]);
    expect(next('b', two)).toEqual([['lost-b1', UNREACHABLE]]);
    expect(next('a', plan(...ready(99), ...unknown(20)))).toHaveLength(10);
    expect(next('a', plan(...ready(1), ...unknown(3)))).toEqual([]);
    expect(next('a', plan(...unknown(3)))).toEqual([]);
  });

  it('waits for ten seconds after the last taint of the zone', () => {
    const tainted = node('t', { ready: 'Unknown', taints: [lost('unreachable', ago(4))], ...inZone('a') });
    expect(due(plan(tainted, ...ready(9), ...unknown(2)))).toEqual({ taints: [], nextMs: 6000 });
    expect(named(plan(tainted, ...ready(9), ...unknown(2, 'b'), ...ready(9, 'b')))).toEqual([['lost-b0', UNREACHABLE]]);
  });

  it('taints so many in each second at rates above one a second', () => {
    const tainted = many(3, (at) => node(`t${at}`, { ready: 'Unknown', taints: [lost('unreachable', ago(0))] }));
    const nodes = [...tainted, node('l', { ready: 'Unknown' }), ...many(9, (at) => node(`r${at}`))];
    const settings = { ...DEFAULT_SETTINGS, evictionRate: 5 };
    expect(due(planZones(nodes, settings, now + 10))).toEqual({ taints: [], nextMs: 590 });
    expect(named(planZones(nodes, settings, now + 600))).toEqual([['l', UNREACHABLE]]);
    const late = [...tainted.slice(2), ...unknown(9), ...ready(9)];
    // The fourth of five is due, and one is set.
    const { taints, nextMs } = planZones(
      late.map((each) => ({ ...each, metadata: { ...each.metadata, labels: {} } })),
      settings,
      now + 700,
    );
    expect([taints.length, nextMs]).toEqual([3, 100]);
  });

  it('taints no node of a small zone that is partially disrupted, and few of a large one', () => {
    expect(due(plan(...ready(1), ...unknown(3)))).toEqual({ taints: [] });
    const large = plan(...ready(10), ...unknown(50));
    expect(large.taints).toHaveLength(1);
    expect(large.nextMs).toBe(100_000);
  });

  it('taints the nodes of a lost zone at the normal rate, while another zone lives', () => {
    const { taints, nextMs } = plan(...unknown(3), ...ready(1, 'b'));
    expect([taints.length, nextMs]).toEqual([1, 10_000]);
  });

  it('removes all taints while all zones are lost, and sets none', () => {
    const tainted = node('t', { ready: 'False', taints: [lost('not-ready', ago(400))], ...inZone('b') });
    expect(named(plan(...unknown(3), tainted))).toEqual([['t', undefined]]);
  });

  it('corrects a taint at once, whatever the rate', () => {
    const [swapped, healed] = [
      node('s', { ready: 'False', taints: [lost('unreachable', ago(1))] }),
      node('h', { taints: [lost('unreachable', ago(1))] }),
    ];
    expect(named(plan(swapped, healed))).toEqual([
      ['s', NOT_READY],
      ['h', undefined],
    ]);
  });

  it.each([
    ['False', NOT_READY],
    ['Unknown', UNREACHABLE],
  ])('takes the other taint, which somebody has set, from a node whose readiness is %s', (status, key) => {
    for (const taints of [
      [lost('not-ready', ago(9)), lost('unreachable', ago(9))],
      [lost('unreachable', ago(9)), lost('not-ready', ago(9))],
    ]) {
      const both = node('b', { ready: status, taints });
      expect(named(plan(both, ...ready(3)))).toEqual([['b', key]]);
      expect(withLostTaint(both, key, ago(0))).toEqual([{ key, effect: 'NoExecute', timeAdded: ago(9) }]);
    }
  });

  it('leaves alone a node that never reported, and a node that is as it should be', () => {
    expect(due(plan(node('n', { ready: null }), ...ready(3)))).toEqual({ taints: [] });
    const done = node('d', { ready: 'Unknown', taints: [lost('unreachable', ago(400))] });
    expect(due(plan(done, ...many(3, (at) => node(`r${at}`))))).toEqual({ taints: [] });
  });

  it('over any history taints no faster than the rate, and ends with the taints that the states ask for', () => {
    const change = fc.record({
      node: fc.nat({ max: 11 }),
      ready: fc.constantFrom('True', 'False', 'Unknown'),
      waitMs: fc.nat({ max: 15_000 }),
    });
    let counted = 0;
    fc.assert(
      fc.property(fc.array(change, { minLength: 5, maxLength: 40 }), (changes) => {
        let nodes = many(12, (at) => node(`n${at}`, inZone(at % 2 ? 'a' : 'b')));
        let atMs = now;
        const evictions = new Map<string, { name: string; atMs: number }>();
        let spaced = 0;
        const step = (): number | undefined => {
          const { taints, nextMs } = planZones(nodes, DEFAULT_SETTINGS, atMs);
          for (const { node: of, key } of taints) {
            const was = of.spec?.taints?.length ?? 0;
            const zone = zoneOf(of);
            if (was === 0) {
              const last = evictions.get(zone);
              // A zone whose last tainted node is back has a token again. The time of a taint is known to the second.
              const stands = nodes.find((each) => each.metadata.name === last?.name)?.spec?.taints?.length;
              if (last && stands) {
                expect(atMs - last.atMs).toBeGreaterThan(9000);
                spaced += 1;
              }
              evictions.set(zone, { name: of.metadata.name, atMs });
            }
            const next = { ...of, spec: { taints: withLostTaint(of, key, timestamp(atMs)) } };
            nodes = nodes.map((each) => (each.metadata.name === of.metadata.name ? next : each));
          }
          return nextMs;
        };
        for (const { node: index, ready: status, waitMs } of changes) {
          nodes = nodes.map((each, at) =>
            at === index
              ? { ...node(`n${at}`, { ready: status, ...inZone(at % 2 ? 'a' : 'b') }), spec: each.spec ?? {} }
              : each,
          );
          atMs += waitMs;
          step();
        }
        counted += spaced;
        // Runs at the times that the previous run asked for, until nothing is left to do.
        let next: number | undefined;
        let runs = 0;
        do {
          next = step();
          atMs += next ?? 0;
          expect((runs += 1)).toBeLessThan(50);
        } while (next !== undefined || planZones(nodes, DEFAULT_SETTINGS, atMs).taints.length > 0);
        const zones = Map.groupBy(nodes, zoneOf);
        const states = [...zones.values()].map((zone) => stateOf(zone, DEFAULT_SETTINGS));
        const isDown = states.every((state) => state === 'full-disruption');
        for (const [at, zone] of [...zones.values()].entries()) {
          for (const each of zone) {
            const status = each.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
            const keys = (each.spec?.taints ?? []).map(({ key }) => key);
            const wanted = status === 'True' || isDown ? [] : [status === 'False' ? NOT_READY : UNREACHABLE];
            // A small zone that is partially disrupted keeps its taints.
            if (states[at] === 'partial-disruption' && keys.length === 0) continue;
            expect(keys).toEqual(wanted);
          }
        }
      }),
      { numRuns: 200, seed: 58 },
    );
    expect(counted).toBeGreaterThan(100);
  });
});
