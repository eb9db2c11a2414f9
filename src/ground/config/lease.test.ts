import { expect, it } from 'vitest';
import { electionLease } from './lease.ts';

it.each([
  ['named, in a cluster', { namespace: 'a', name: 'b' }, 'pods', { namespace: 'a', name: 'b' }],
  ['named, outside a cluster', { namespace: 'a', name: 'b' }, undefined, { namespace: 'a', name: 'b' }],
  ['beside the gateway, in a cluster', undefined, 'pods', { namespace: 'pods', name: 'levelhook' }],
  ['none, outside a cluster', undefined, undefined, undefined],
  ['none, where it is switched off', 'off' as const, 'pods', undefined],
])('the Lease is the one %s', (_, setting, podNamespace, lease) => {
  expect(electionLease(setting, podNamespace)).toEqual(lease);
});
