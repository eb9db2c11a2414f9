import { describe, expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { type Bulk, fields } from './hostile-tenant/bulk.ts';
import { type BehaviourName, UNDELETED } from './hostile-tenant/hostile-function.ts';
import { SingleWrites } from './hostile-tenant/single-writes.ts';

/** Keys of each function. */
const KEYS = 100;
const FUNCTIONS = 5;

/** The generated tenant has the others, too. */
const BEHAVIOURS: readonly BehaviourName[] = [
  'an error with as many writes as fit',
  'lines of a stream with as many writes as fit',
  'other related objects each time',
];

describe('what the functions of a tenant may answer, as often as they can', () => {
  const writes = SingleWrites.inThisFile();

  /**
   * Has functions answer until the victim was watched.
   * @param reads kinds that the functions read, too, so that barriers wait for their writes. Default: none.
   * @param endpoint of each function but for its path. Default: at http.
   */
  async function expectNoHarmBy(
    behaviour: BehaviourName,
    endpoint?: { url: string; caBundle: string },
    reads: Bulk[] = [],
  ): Promise<void> {
    const { world } = writes;
    world.fn.behave([behaviour]);
    for (let at = 0; at < FUNCTIONS; at += 1) {
      const name = `answering-${at}`;
      await writes.declare(name, {
        for: world.source('configmaps'),
        watches: [world.source('configmaps', { map: fields({ by: 'related' }) })],
        reads,
        concurrency: 1000,
        maxBatch: behaviour.startsWith('lines') ? 100 : 1,
        timeoutSeconds: 10,
        ...(endpoint ? { endpoint: fields({ ...endpoint, url: `${endpoint.url}/${name}` }) } : {}),
      });
    }
    await writes.untilItRuns();
    for (let at = 0; at < KEYS; at += 1) await writes.put('configmaps', `key-${at}`, fields({ data: fields({}) }));
    const before = world.fn.count;
    await eventually(async () => expect(world.fn.count).toBeGreaterThan(before + (endpoint ? 1 : 20)));
    writes.beginWatch();
    await writes.expectNoHarm();
    world.fn.behave(['done']);
  }

  test.each(BEHAVIOURS)('%s: delays no other tenant', async (behaviour) => {
    await expectNoHarmBy(behaviour);
  });

  test('deletes of objects with long indexes that are still there: delays no other tenant', async () => {
    const { ground, hostile, kinds } = writes.world;
    const { apiVersion, kind } = kinds.things;
    const many = Array.from({ length: 1000 }, (_, at) => `${'v'.repeat(280)}${at}`);
    await writes.declare('reading', {
      for: fields({ apiVersion, kind, labelSelector: fields({ matchLabels: fields({ none: 'none' }) }) }),
      indexes: [fields({ apiVersion, kind, index: 'field:spec.many' })],
    });
    for (let at = 0; at < 18; at += 1) await writes.put('things', `large-${at}`, fields({ spec: fields({ many }) }));
    const { items } = await ground.cluster.list(kinds.things, hostile.namespace);
    expect(items).toHaveLength(18);
    for (const { metadata } of items) {
      const { namespace, name, uid } = metadata;
      UNDELETED.push({ apiVersion, kind, namespace, name, uid });
    }
    await expectNoHarmBy('deletes that never were', undefined, [fields({ apiVersion, kind })]);
  });

  test('a new connection each time, with a chain of 21 certificates: delays no other tenant', async () => {
    const { caBundle, url } = writes.world.fn.secure;
    const startMs = Date.now();
    await expectNoHarmBy('again at no time, successfully', { caBundle, url });
    // The function itself makes the processors slow, which excuses delays of seconds. Without a bound they are 4 to 8
    // s.
    const { slowdown, slowestMs } = writes.world.violations(startMs).findings;
    expect(slowestMs).toBeLessThan(1000 * slowdown);
  });
});
