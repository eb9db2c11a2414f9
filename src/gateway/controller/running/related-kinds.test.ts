import { expect, it } from 'vitest';
import { silentLogger } from '../../../core/index.ts';
import type { Description } from '../../../contract/index.ts';
import { RelatedKinds, relatedWatches } from './related-kinds.ts';

const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap' };
const LEASE = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };

/** Looks once at each time, with the kinds that are named at that time. */
async function looks(times: readonly (readonly [nowMs: number, named: readonly string[], served: boolean])[]) {
  const stop = new AbortController();
  const seen: { isOutdated: boolean; reports: number; asked: number }[] = [];
  let [at, reports, asked] = [0, 0, 0];
  const kinds: RelatedKinds = new RelatedKinds({
    controller: 'c',
    rules: { kinds: async () => [...(times[at]?.[1] ?? [])] },
    declared: [CONFIG_MAP],
    watched: [LEASE],
    isServed: async () => {
      asked += 1;
      return times[at]?.[2] ?? false;
    },
    onOutdated: () => (reports += 1),
    runtime: {
      logger: silentLogger,
      clock: {
        now: () => times[at]?.[0] ?? 0,
        wallNow: () => 0,
        sleep: async () => {
          seen.push({ isOutdated: kinds.isOutdated, reports, asked });
          at += 1;
          if (at >= times.length) stop.abort();
        },
      },
    },
  });
  await kinds.run(stop.signal);
  return seen;
}

const lease = 'coordination.k8s.io/v1/Lease';

it('asks for a kind that is not served every ten seconds, and reports it when it is', async () => {
  const named = [lease, 'v1/ConfigMap', 'a/v1/New'];
  const seen = await looks([
    [0, named, false],
    [5000, named, true],
    [10_000, named, true],
    [11_000, named, true],
    [20_500, named, true],
  ]);
  expect(seen).toEqual([
    { isOutdated: false, reports: 0, asked: 1 },
    { isOutdated: false, reports: 0, asked: 1 },
    { isOutdated: true, reports: 1, asked: 2 },
    { isOutdated: true, reports: 1, asked: 2 },
    { isOutdated: true, reports: 2, asked: 3 },
  ]);
});

it('keeps a kind for ten minutes after a key has named it last', async () => {
  const seen = await looks([
    [0, [lease], true],
    [300_000, [lease], true],
    [900_000, [], true],
    [900_001, [], true],
  ]);
  expect(seen.map(({ isOutdated }) => isOutdated)).toEqual([false, false, false, true]);
});

it('hears of declared kinds in the namespaces that are declared, and of named kinds in all', () => {
  const description = {
    for: { ...CONFIG_MAP, namespaces: ['a'] },
    owns: [{ ...CONFIG_MAP, namespaces: ['b'] }],
    watches: [{ ...LEASE, map: { by: 'related' } }],
    reads: [],
  } as unknown as Description;
  const map = { by: 'related' };
  const pod = { apiVersion: 'v1', kind: 'Pod' };
  expect(relatedWatches({ ...description, relatedKinds: 'any' }, [pod])).toEqual([
    { ...CONFIG_MAP, map, namespaces: ['a', 'b'] },
    { ...pod, map },
  ]);
  expect(relatedWatches(description, [])).toEqual([]);
});
