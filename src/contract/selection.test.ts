import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatObjectKey, type KubernetesObject, keyOf } from '../core/index.ts';
import { indexEntriesOf } from './cache-layout.ts';
import { beyondKey, indexQueries, isKeySelected, isSelected, type Selection } from './selection.ts';

const SPEC = 'label:app';
const name = fc.constantFrom('a', 'b');
const namespace = fc.constantFrom('n', 'm');
const objects = fc
  .record({ namespace, name, app: fc.option(name), owner: fc.option(name) })
  .map(({ app, owner, ...key }): KubernetesObject => {
    const reference = { apiVersion: 'v1', kind: 'Owner', name: 'o', uid: owner ?? '', controller: true };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        ...key,
        uid: 'u',
        resourceVersion: '1',
        ...(app ? { labels: { app } } : {}),
        ...(owner ? { ownerReferences: [reference] } : {}),
      },
    };
  });
const field = fc.record({
  field: fc.constantFrom('metadata.name', 'metadata.namespace', 'status.phase'),
  operator: fc.constantFrom('=' as const, '!=' as const),
  value: fc.constantFrom('a', 'n', '', 'n/a'),
});
const selections = fc.record(
  {
    namespace,
    controlledBy: fc
      .record({ uid: name, namespace: fc.option(namespace, { nil: undefined }) })
      .map((metadata) => ({ metadata })),
    orphansIn: namespace,
    index: fc.oneof(
      name.map((value) => ({ spec: SPEC, value }) as const),
      fc.constant('labels' as const),
    ),
    labels: fc.array(
      name.map((value) => ({ key: 'app', operator: 'In' as const, values: [value] })),
      { maxLength: 1 },
    ),
    fields: fc.array(field, { maxLength: 2 }),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<Selection>;

it('an object is selected when its key is, its index entries are there, and there is nothing more to ask', () => {
  fc.assert(
    fc.property(objects, selections, (object, selection) => {
      const { indexes, more } = beyondKey(selection);
      const entries = indexEntriesOf(object, [SPEC, 'labels']);
      const told =
        isKeySelected(formatObjectKey(keyOf(object)), selection) && indexes.every((each) => entries.includes(each));
      // Key and index never refuse a selected object; without more conditions they decide alone.
      if (!told || !more) expect(isSelected(object, selection)).toBe(told);
    }),
    { numRuns: 2000 },
  );
});

it('a query of the labels index names few entries, however many labels a selector has', () => {
  const labels = Array.from({ length: 3000 }, (_, at) => ({ key: `a${at}`, operator: 'In' as const, values: ['1'] }));
  const named = indexQueries({ namespace: 'shop', index: 'labels', labels }).flat();
  expect(named.length).toBeGreaterThan(8);
  expect(named.length).toBeLessThan(24);
});
