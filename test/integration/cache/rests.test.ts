import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { KeyScope } from '../../../src/gateway/controller/handlers/key-scope.ts';
import { SecondaryKeys } from '../../../src/gateway/controller/running/secondary-keys.ts';
import { unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { threadMs, TimeSlice } from '../../../src/ground/time-slice.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { createView } from '../../harness/views.ts';

/** Longer than a slice that is followed by a rest. */
const LONG_MS = 20;
const OBJECTS: KubernetesObject[] = ['one', 'two', 'three'].map((name, at) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'a', name, uid: name, resourceVersion: String(at + 1) },
}));

let redis: Redis;
let view: View;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  view = createView(redis, configMaps);
  await view.writer.claim('writer');
  await applierOf(view).apply(listOf('10', OBJECTS));
});

afterAll(() => redis.disconnect());

/** Counts how often the work might have rested. */
class CountingSlice extends TimeSlice {
  rests = 0;

  override async next(): Promise<void> {
    this.rests += 1;
    await super.next();
  }
}

function compute(): void {
  const endMs = threadMs() + LONG_MS;
  while (threadMs() < endMs);
}

it('the keys of secondary objects are found without a rest, however long each object waits for the budget', async () => {
  const secondary = new SecondaryKeys({
    description: { owns: [], watches: [{ apiVersion: 'v1', kind: 'ConfigMap', map: { by: 'label', label: 'of' } }] },
    sources: [{ resource: configMaps, informers: [{ view }] }],
    events: {
      scope: new KeyScope(configMaps, {}, [view]),
      secondaryHandlerFor: () => (change) => {
        compute();
        return [{ controller: 'x', key: `a/of-${change.object.metadata.name}`, reasons: [] }];
      },
    },
    budget: {
      inTurn: async (work) => {
        await sleep(LONG_MS);
        // Other work of the thread.
        compute();
        return work();
      },
    },
    lookups: unlimitedLookups,
    onLeftOut: (error) => expect.fail(error.message),
  });
  const slice = new CountingSlice();
  const found: string[] = [];
  for await (const keys of secondary.keys(undefined, slice)) found.push(...keys);
  expect(found.toSorted()).toEqual(['a/of-one', 'a/of-three', 'a/of-two']);
  expect(slice.rests).toBe(0);
});
