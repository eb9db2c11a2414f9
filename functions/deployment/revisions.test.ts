import { expect, it } from 'vitest';
import { active, byAge, revisionsOf, totalReplicas } from './revisions.ts';
import { revision, templateOf, webDeployment } from './testing.ts';

const names = (sets: readonly ReturnType<typeof revision>[]) => sets.map(({ metadata }) => metadata.name);

it('of several ReplicaSets with the present template the oldest is current, and the others are old, by age', () => {
  const twin = { ...revision(3, 1), spec: revision(2, 1).spec };
  const { current, old } = revisionsOf(webDeployment({ template: templateOf(2) }), [
    revision(4, 0),
    twin,
    revision(2, 1),
    revision(1, 0),
  ]);
  expect(current?.metadata.name).toBe('web-2');
  expect(names(old)).toEqual(['web-1', 'web-3', 'web-4']);
});

it('none is current before it is made', () => {
  expect(revisionsOf(webDeployment({ template: templateOf(5) }), [revision(1, 3)]).current).toBeUndefined();
});

it('those of the same second are in the order of their names', () => {
  const creationTimestamp = '2026-01-01T00:00:00Z';
  const [a, b] = [
    revision(2, 0, { metadata: { creationTimestamp } }),
    revision(1, 0, { metadata: { creationTimestamp } }),
  ];
  expect(names([a, b].toSorted(byAge))).toEqual(['web-1', 'web-2']);
});

it('active are those that are to have pods, whatever they have', () => {
  const sets = [revision(1, 0, { status: { replicas: 2 } }), revision(2, 3, { status: { replicas: 0 } })];
  expect(names(active(sets))).toEqual(['web-2']);
  expect(totalReplicas(sets)).toBe(3);
});
