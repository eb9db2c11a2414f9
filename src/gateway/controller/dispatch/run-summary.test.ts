import { expect, it } from 'vitest';
import { wroteOf } from './run-summary.ts';

it('an object with a long name is cut in the history of runs before it is encoded', () => {
  const write = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', uid: 'u', resourceVersion: '5' };
  const { count, first } = wroteOf([
    { ...write, name: 'x'.repeat(1_000_000) },
    { ...write, name: 'short' },
  ]);
  expect(count).toBe(2);
  expect(first.map(({ object }) => object.length)).toEqual([512, expect.any(Number)]);
  expect(first[1]?.object).toMatch(/short$/);
});
