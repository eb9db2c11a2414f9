import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { type BulkObject, fields } from './hostile-tenant/bulk.ts';
import { SingleWrites } from './hostile-tenant/single-writes.ts';

describe('what a tenant may write in its own namespace, one thing at a time', () => {
  const writes = SingleWrites.inThisFile();

  const ownerNamed = (name: string): BulkObject =>
    fields({
      metadata: fields({
        ownerReferences: [fields({ apiVersion: 'v1', kind: 'ConfigMap', name, uid: 'x', controller: true })],
      }),
      spec: fields({ containers: [fields({ name: 'main', image: 'pause' })] }),
    });

  test('an owner reference whose name holds a slash stops no other wakeup', async () => {
    await writes.declare('owning', { for: writes.world.source('configmaps'), owns: [writes.world.source('pods')] });
    await writes.untilItRuns();
    await writes.put('pods', 'owned', ownerNamed('a/b'));
    await writes.expectNoHarm();
  });

  test('an apiVersion that climbs out of its group shows nothing of other groups', async () => {
    const apiVersion = `${writes.world.group}/../../api/v1`;
    const climbing = ['ConfigMap', 'Pod', 'Secret'].map((kind) => fields({ apiVersion, kind }));
    for (const [at, kind] of climbing.entries())
      await writes.world.declare(`climbing-${at}`, { for: kind, reads: climbing });
    await sleep(4000);
    await writes.world.spy.readAll();
    await writes.expectNoHarm();
  });

  test.each(['label', 'annotation'])('a map by an inherited %s stops no informer', async (by) => {
    // `__proto__` is no key of a label: the definition of the resource refuses it.
    for (const [at, name] of ['constructor', 'hasOwnProperty', 'toString'].entries()) {
      const watched = writes.world.source('configmaps', { map: fields({ by, [by]: name }) });
      await writes.declare(`inheriting-${at}`, { for: writes.world.source('configmaps'), watches: [watched] });
    }
    await writes.untilItRuns();
    await writes.put(
      'configmaps',
      'labelled',
      fields({ metadata: fields({ annotations: fields({ some: 'annotation' }) }) }),
    );
    await writes.expectNoHarm();
  });

  test('an object whose selector is none stops no other wakeup', async () => {
    const watched = writes.world.source('configmaps', { map: fields({ by: 'selector', path: 'spec.selector' }) });
    await writes.declare('selecting', { for: writes.world.source('things'), watches: [watched] });
    const selector = fields({ matchExpressions: 5, other: fields({}) });
    await writes.put('things', 'selector', fields({ spec: fields({ selector }) }));
    await writes.untilItRuns();
    await writes.put('configmaps', 'selected', fields({ data: fields({ text: 'a' }) }));
    await writes.expectNoHarm();
  });

  test('expressions that loop in loops in loops take no more time for being many', async () => {
    const numbers = `[${Array.from({ length: 60 }, (_, at) => at).join()}]`;
    const cel = `${numbers}.all(a, ${numbers}.all(b, ${numbers}.all(c, a + b + c >= 0)))`;
    const watched = writes.world.source('configmaps', {
      predicate: fields({ cel }),
      map: fields({ by: 'cel', expression: `${cel} ? ['a'] : ['b']` }),
    });
    await writes.declare('looping', {
      for: writes.world.source('configmaps'),
      watches: Array.from({ length: 16 }, () => watched),
    });
    // Its expressions leave it no time for a run.
    await sleep(2000);
    for (let at = 0; at < 10; at += 1) {
      await writes.put('configmaps', 'watched', fields({ data: fields({ at: String(at) }) }));
      await sleep(1000);
    }
    await writes.expectNoHarm();
  });

  test('objects with 100,000 values of an index delay no other tenant, and take no more memory than they are long', async () => {
    const { apiVersion, kind } = writes.world.kinds.things;
    const usedMiB = async (): Promise<number> =>
      Number(/^used_memory:(\d+)/m.exec(await writes.world.ground.admin.info('memory'))?.[1]) / 2 ** 20;
    await writes.declare('indexing', {
      for: writes.world.source('things'),
      indexes: [fields({ apiVersion, kind, index: 'field:spec.refs' })],
    });
    await writes.put('things', 'small', fields({ spec: fields({ refs: ['a'] }) }));
    await eventually(async () => expect(writes.world.fn.keys).toContain(`${writes.world.hostile.namespace}/small`));
    const before = await usedMiB();
    for (let round = 0; round < 2; round += 1) {
      const values = Array.from({ length: 100_000 }, (_, at) => `"${round}-${at}"`);
      const refs = { raw: `[${values.join()}]` };
      for (let at = 0; at < 4; at += 1) await writes.put('things', `listing-${at}`, fields({ spec: fields({ refs }) }));
    }
    await writes.expectNoHarm();
    // Four objects of 0.8 MiB, and buffers of the connections.
    await eventually(async () => expect((await usedMiB()) - before).toBeLessThan(40));
  });

  test('an object that is nested thousands of levels deep stops neither its own view nor another', async () => {
    const { apiVersion, kind } = writes.world.kinds.things;
    await writes.declare('deep', {
      for: writes.world.source('things'),
      watches: [writes.world.source('configmaps', { map: fields({ by: 'all' }) })],
      indexes: [fields({ apiVersion, kind, index: 'field:spec.a.a' })],
    });
    await writes.put('things', 'flat', fields({ spec: fields({ a: fields({ a: 'x' }) }) }));
    await writes.untilItRuns();
    for (const levels of [5000, 9000]) {
      for (const nested of ['list', 'object'] as const) {
        const value = { nested, levels, value: 'x' };
        await writes.put('things', `${nested}-${levels}`, fields({ spec: fields({ a: value }) }));
      }
    }
    await writes.put('things', 'last', fields({ spec: fields({ a: fields({ a: 'x' }) }) }));
    await eventually(async () => expect(writes.world.fn.keys).toContain(`${writes.world.hostile.namespace}/last`));
    await writes.expectNoHarm();
  });
});
