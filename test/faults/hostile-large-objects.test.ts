import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { fields } from './hostile-tenant/bulk.ts';
import { SingleWrites, WATCH_MS } from './hostile-tenant/single-writes.ts';

describe('many large objects of a tenant', () => {
  const writes = SingleWrites.inThisFile();

  test('lookups among many large objects delay no other tenant', { timeout: 300_000 }, async () => {
    // 40 MB, which a lookup decodes for each change of other labels.
    for (let at = 0; at < 40; at += 1) {
      await writes.put('things', `large-${at}`, fields({ spec: fields({ many: { keys: 60_000, value: 'x' } }) }));
    }
    const before = writes.world.fn.count;
    for (let at = 0; at < 8; at += 1) {
      const watched = writes.world.source('configmaps', {
        map: fields({ by: 'selector', path: `spec.selector.${at}` }),
      });
      await writes.declare(`looking-${at}`, { for: writes.world.source('things'), watches: [watched] });
    }
    for (let at = 0; at < 8; at += 1) await writes.world.hostile.until(`looking-${at}`, 'Ready', { status: 'True' });
    await eventually(async () => expect(writes.world.fn.count).toBeGreaterThan(before));
    // The first read of the objects takes long, and the next test looks at it.
    await sleep(3000);
    const fromMs = writes.beginWatch();
    const harm = writes.expectNoHarm();
    for (let round = 0; Date.now() - fromMs < WATCH_MS; round += 1) {
      await writes.put(
        'configmaps',
        'labelled',
        fields({ metadata: fields({ labels: fields({ round: String(round) }) }) }),
      );
      await sleep(50);
    }
    await harm;
  });

  test('large objects delay no other tenant while they are read for the first time', { timeout: 300_000 }, async () => {
    const { apiVersion, kind } = writes.world.kinds.things;
    // 24 MB that nothing has asked for yet. A list costs the apiserver less than as many fields, and the gateway as
    // much.
    for (let at = 0; at < 24; at += 1) {
      const many = { items: fields({ a: 0 }), times: 150_000 };
      await writes.put('things', `large-${at}`, fields({ spec: fields({ many }) }));
    }
    writes.beginWatch();
    for (let at = 0; at < 8; at += 1) {
      const indexes = [fields({ apiVersion, kind, index: `field:spec.many.key-${at}` })];
      const labelSelector = fields({ matchExpressions: [fields({ key: 'absent', operator: 'DoesNotExist' })] });
      await writes.declare(`reading-${at}`, { for: writes.world.source('things', { labelSelector }), indexes });
    }
    for (let at = 0; at < 8; at += 1) {
      await writes.world.hostile.until(`reading-${at}`, 'Ready', { status: 'True' });
    }
    await writes.expectNoHarm();
  });
});
