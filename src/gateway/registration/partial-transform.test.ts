import { expect, it } from 'vitest';
import { statusOf } from './conditions.ts';
import { partialTransform } from './partial-transform.ts';
import type { ReconcileFunction } from './reconcile-function.ts';

const metadata = {
  namespace: 'shop',
  name: 'web',
  uid: 'u',
  resourceVersion: '7',
  generation: 2,
  creationTimestamp: '2026-01-01T00:00:00Z',
};
const large = 'x'.repeat(256 * 1024);

function kept(status?: object): unknown {
  const object = {
    apiVersion: 'levelhook.dev/v1alpha1',
    kind: 'ReconcileFunction',
    metadata: {
      ...metadata,
      labels: { large },
      annotations: { large },
      finalizers: [large],
      managedFields: [large],
      generateName: large,
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: large, uid: 'o' }],
    },
    spec: { large },
    ...(status ? { status } : {}),
  } satisfies ReconcileFunction & Record<string, unknown>;
  partialTransform.object(object);
  return object;
}

const partial = { apiVersion: 'levelhook.dev/v1alpha1', kind: 'ReconcileFunction', metadata };

it('keeps identity, generation and status of a ReconcileFunction, and nothing else', () => {
  const condition = { type: 'Ready', status: 'True', reason: 'Running', message: 'Its keys are being run.' };
  const status = { observedGeneration: 2, url: 'https://web.example/', conditions: [condition] };
  expect(kept(status)).toEqual({ ...partial, status });
  expect(kept()).toEqual(partial);
  expect(partialTransform.text(JSON.stringify(kept()))).toBe('');
});

it('keeps a status of the longest messages, however JSON writes them, and of the longest conditions of others', () => {
  const finding = { status: 'False', reason: 'Because', message: '"\u20ac\ud800'.repeat(10_000) } as const;
  const findings = {
    Authorized: finding,
    Synced: finding,
    EventsHandled: finding,
    Reachable: finding,
    Paused: finding,
  };
  const url = `https://web.example/${'x'.repeat(1980)}`;
  const others = Array.from({ length: 10 }, (_, at) => ({
    type: `example.com/${at}`.padEnd(200, 'x'),
    status: 'True' as const,
    reason: 'R'.repeat(400),
    message: 'x'.repeat(1024),
    lastTransitionTime: '2026-01-01T00:00:00Z',
  }));
  for (const before of [undefined, { conditions: others }]) {
    const more = { generation: 2, url, failure: undefined, state: undefined, nowMs: 0 };
    const status = statusOf(before, findings, more);
    expect(kept(structuredClone(status))).toEqual({ ...partial, status });
  }
});

it('takes a status that no gateway writes, because it is too large, for none', () => {
  expect(kept({ conditions: [{ type: 'Mine', message: large }] })).toEqual(partial);
});

it('keeps a status with the largest integers that an apiserver takes', () => {
  const status = { observedGeneration: 2n ** 63n - 1n, conditions: [] };
  expect(kept(status)).toEqual({ ...partial, status });
});
