import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../core/index.ts';
import { healthOf } from './health.ts';

const metadata = { name: 'a', uid: 'u', resourceVersion: '1' };

function object(fields: object, of: object = {}): KubernetesObject {
  return { apiVersion: 'v1', kind: 'Thing', metadata: { ...metadata, ...of }, ...fields };
}

const conditions = (...all: [type: string, status: string, reason?: string][]) => ({
  status: { conditions: all.map(([type, status, reason]) => ({ type, status, reason })) },
});

describe('the health of an object', () => {
  const rows: [name: string, object: KubernetesObject, health: [string, string] | undefined][] = [
    ['none without a status', object({}), undefined],
    ['none of conditions that are of no known type', object(conditions(['Odd', 'False'])), undefined],
    [
      'its deletion first',
      object(conditions(['Ready', 'True']), { deletionTimestamp: 'now' }),
      ['warn', 'is being deleted'],
    ],
    ['ready', object(conditions(['Ready', 'True'])), ['ok', 'Ready']],
    ['not ready, with the reason', object(conditions(['Ready', 'False', 'NoImage'])), ['bad', 'not Ready: NoImage']],
    ['not known', object(conditions(['Ready', 'Unknown', 'NodeLost'])), ['warn', 'Ready is unknown: NodeLost']],
    [
      'a failure before readiness',
      object(conditions(['Ready', 'True'], ['Stalled', 'True', 'Quota'])),
      ['bad', 'Stalled: Quota'],
    ],
    ['a failure that is over', object(conditions(['Ready', 'True'], ['Failed', 'False'])), ['ok', 'Ready']],
    [
      'replicas that are ready',
      object({ spec: { replicas: 2 }, status: { replicas: 2, readyReplicas: 2 } }),
      ['ok', '2 of 2 ready'],
    ],
    [
      'replicas of which none is ready',
      object({ spec: { replicas: 2 }, status: { replicas: 2 } }),
      ['warn', '0 of 2 ready'],
    ],
    [
      'a pod that has ended well',
      object({
        status: { phase: 'Succeeded', conditions: [{ type: 'Ready', status: 'False', reason: 'PodCompleted' }] },
      }),
      ['ok', 'Succeeded'],
    ],
    ['a phase', object({ status: { phase: 'Failed' } }), ['bad', 'Failed']],
    ['a phase of its own', object({ status: { phase: 'Odd' } }), ['neutral', 'Odd']],
  ];
  it.each(rows)('is %s', (_name, given, health) => {
    expect(healthOf(given)).toEqual(health && { tone: health[0], text: health[1] });
  });

  it('is read of any status, in few characters', () => {
    const long = 'x'.repeat(10_000);
    for (const status of [
      null,
      5,
      'text',
      [],
      { conditions: {} },
      { conditions: [null, 5, [], { type: 5 }] },
      { phase: {} },
    ])
      expect(healthOf(object({ status }))).toBeUndefined();
    const many = Array.from({ length: 50_000 }, (): [string, string] => ['Odd', 'True']);
    expect(healthOf(object(conditions(...many, ['Ready', 'False'])))).toBeUndefined();
    expect(healthOf(object({ status: { phase: long } }))?.text.length).toBeLessThan(100);
    expect(healthOf(object(conditions(['Failed', 'True', long])))?.text.length).toBeLessThan(100);
    expect(healthOf(object({ spec: { replicas: long }, status: { replicas: 1 } }))).toBeUndefined();
  });
});
