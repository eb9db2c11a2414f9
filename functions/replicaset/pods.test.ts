import { describe, expect, it } from 'vitest';
import { ownedByWeb, pod, replicaSet } from '../lib/testing.ts';
import { isActive, isTerminating, podFromTemplate } from './pods.ts';

describe('podFromTemplate', () => {
  it('takes labels, annotations, finalizers and the whole spec, and belongs to the ReplicaSet', () => {
    const metadata = { labels: { app: 'web' }, annotations: { note: 'x' }, finalizers: ['example.com/cleanup'] };
    const spec = { containers: [{ name: 'main', image: 'web:1' }] };
    expect(podFromTemplate(replicaSet({ template: { metadata, spec: spec as object } }))).toEqual({
      metadata: { namespace: 'test', generateName: 'web-', ...metadata, ownerReferences: [ownedByWeb] },
      spec,
    });
  });

  it('has a dash after the name, of whatever length', () => {
    const prefixOf = (length: number) =>
      podFromTemplate(replicaSet({}, { name: 'a'.repeat(length) })).metadata.generateName;
    expect(prefixOf(252)).toBe(`${'a'.repeat(252)}-`);
    expect(prefixOf(253)).toBe(`${'a'.repeat(253)}-`);
  });

  it('refuses a template without labels', () => {
    expect(() => podFromTemplate(replicaSet({ template: { spec: {} } }))).toThrow('unable to create pods, no labels');
  });
});

it.each([
  ['Running', undefined, true, false],
  [undefined, undefined, true, false],
  ['Running', '2026-01-01T00:00:00Z', false, true],
  ['Succeeded', undefined, false, false],
  ['Failed', '2026-01-01T00:00:00Z', false, false],
])('a pod %s, deleted at %s: active %s, terminating %s', (phase, deletionTimestamp, active, terminating) => {
  const given = pod('a', { metadata: { deletionTimestamp }, status: { phase } });
  expect([isActive(given), isTerminating(given)]).toEqual([active, terminating]);
});
