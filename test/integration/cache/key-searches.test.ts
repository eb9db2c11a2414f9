import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type KubernetesObject, UserError } from '../../../src/core/index.ts';
import { KeyScope } from '../../../src/gateway/controller/handlers/key-scope.ts';
import { keysInScope } from '../../../src/gateway/controller/running/keys-in-scope.ts';
import { requeue } from '../../../src/gateway/controller/running/requeue.ts';
import { SecondaryKeys } from '../../../src/gateway/controller/running/secondary-keys.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { threadMs, TimeSlice } from '../../../src/ground/time-slice.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
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

/** Counts the rests that follow long work. A slice whose thread waited for a processor ends without one. */
class CountingSlice extends TimeSlice {
  rests = 0;

  override rest(ms: number): Promise<void> {
    if (ms > 0) this.rests += 1;
    return super.rest(ms);
  }
}

function compute(): void {
  const endMs = threadMs() + LONG_MS;
  while (threadMs() < endMs);
}

/** @param inTurn as `CpuBudget.inTurn`. @param onHandled called for each object that is mapped. */
function secondaryKeys(inTurn: <T>(work: () => T) => Promise<T>, onHandled: () => void): SecondaryKeys {
  return new SecondaryKeys({
    description: { owns: [], watches: [{ apiVersion: 'v1', kind: 'ConfigMap', map: { by: 'label', label: 'of' } }] },
    sources: [{ resource: configMaps, informers: [{ view }] }],
    events: {
      scope: new KeyScope(configMaps, {}, [view]),
      secondaryHandlerFor: () => (change) => {
        onHandled();
        return [{ controller: 'x', key: `a/of-${change.object.metadata.name}`, reasons: [] }];
      },
    },
    budget: { inTurn },
    lookups: unlimitedLookups,
    onLeftOut: (error) => expect.fail(error.message),
  });
}

it('the keys of secondary objects are found without a rest, however long each object waits for the budget', async () => {
  const secondary = secondaryKeys(async (work) => {
    await sleep(LONG_MS);
    // Other work of the thread.
    compute();
    return work();
  }, compute);
  const slice = new CountingSlice();
  const found: string[] = [];
  for await (const keys of secondary.keys(undefined, slice)) found.push(...keys);
  expect(found.toSorted()).toEqual(['a/of-one', 'a/of-three', 'a/of-two']);
  expect(slice.rests).toBe(0);
});

it('the end of a controller ends the search for its keys at the object that waits for the budget', async () => {
  const ended = new AbortController();
  let handled = 0;
  let turns = 0;
  const secondary = secondaryKeys(
    async (work) => {
      turns += 1;
      if (turns === 2) ended.abort(new Error('ended'));
      return work();
    },
    () => (handled += 1),
  );
  const keys = secondary.keys(undefined, new TimeSlice('a', ended.signal));
  await expect(keys.next()).rejects.toThrow('ended');
  expect({ turns, handled }).toEqual({ turns: 2, handled: 1 });
});

it('the end of a controller ends the search for its own keys at the next object, though none passes', async () => {
  const ended = new AbortController();
  const asked: string[] = [];
  const passes = ({ metadata }: KubernetesObject): boolean => {
    asked.push(metadata.name ?? '');
    ended.abort(new Error('ended'));
    return false;
  };
  const slice = new TimeSlice('a', ended.signal);
  const keys = keysInScope(new KeyScope(configMaps, {}, [view]), { passes, slice });
  await expect(keys.next()).rejects.toThrow('ended');
  expect(asked).toHaveLength(1);
});

it('no key is queued on request once the controller has stopped', async () => {
  const location = redisLocation(redis, uniqueName('requeue'), 'c');
  const queue = new BullMqWorkQueue({
    name: 'stopped',
    behaviour: { concurrency: 1, timeoutMs: 60_000 },
    location,
    runtime: quietRuntime({}),
  });
  queue.suspend();
  const stopped = new AbortController();
  const target = { queue, scope: new KeyScope(configMaps, {}, [view]), stopped: stopped.signal };
  expect(await requeue(target, { which: { selection: {} }, priority: 'low' })).toBe(OBJECTS.length);
  stopped.abort();
  for (const priority of ['low', 'high'] as const) {
    await expect(requeue(target, { which: { keys: [{ namespace: 'a', name: 'four' }] }, priority })).rejects.toThrow(
      new UserError('the controller has stopped before all keys were queued.'),
    );
  }
  const queued = await redis.zrange(queueKeys(location, 'stopped').backlog, '0', '-1');
  expect(queued.toSorted()).toEqual(['a/one', 'a/three', 'a/two']);
  await queue.stop(0);
});
