import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, systemClock } from '../../../src/core/index.ts';
import { addWithPauses, settlePauses } from '../../../src/gateway/controller/running/paused-keys.ts';
import { PAUSED_ANNOTATION, PAUSED_INDEX } from '../../../src/gateway/controller/handlers/paused.ts';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import type { PausedState, QueuedKey } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { createView } from '../../harness/views.ts';

const pods = resource('v1', 'Pod');
const KEY = 'a/k';
const WAKEUP: QueuedKey = { key: KEY, reasons: [] };

/** A gateway with its own connections. */
interface Gateway {
  readonly view: View;
  readonly queue: BullMqWorkQueue;
}

let fixture: RedisQueueFixture;
let connections: Redis[];
let first: Gateway;
let second: Gateway;
let version: number;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  connections = [await connectRedis(inject('redisUrl')), await connectRedis(inject('redisUrl'))];
  const [one, two] = connections as [Redis, Redis];
  const view = createView(one, pods);
  first = { view, queue: await fixture.open() };
  second = { view: new View(two, pods, view.location), queue: await fixture.open() };
  for (const each of [first, second]) each.view.indexer.maintain([PAUSED_INDEX]);
  version = 10;
  await view.writer.claim('first');
  await applierOf(view).apply(listOf('10', []));
  await view.record.renew('run');
  await view.record.state();
});

afterEach(async () => {
  await second.view.discard();
  await fixture.close();
  for (const each of connections) each.disconnect();
});

/** Brings a new state of the object into the cache. */
async function write({ view }: Gateway, isPaused: boolean): Promise<void> {
  version += 1;
  const annotations = isPaused ? { [PAUSED_ANNOTATION]: 'true' } : {};
  const metadata = { namespace: 'a', name: 'k', uid: 'u', resourceVersion: String(version), annotations };
  const object: KubernetesObject = { apiVersion: 'v1', kind: 'Pod', metadata };
  await applierOf(view).apply([{ kind: 'changed', object }]);
}

/** The object gets a new state, and its event is handled. */
async function change(gateway: Gateway, isPaused: boolean): Promise<void> {
  await write(gateway, isPaused);
  await addWithPauses(gateway.queue, [gateway.view], [WAKEUP]);
}

const isPausedNow = async (): Promise<boolean> => (await first.queue.inspector.status(KEY)).pauses.length > 0;

it.each([
  ['ended', 'begun', false],
  ['begun', 'ended', true],
])(
  'a pause that an event has %s is not %s again by a gateway that led before and remembers the object',
  async (...row) => {
    const isPaused = row[2];
    await change(first, !isPaused);
    expect(await isPausedNow()).toBe(!isPaused);
    await second.view.writer.claim('second');
    await change(second, isPaused);
    expect(await isPausedNow()).toBe(isPaused);
    // A late wakeup of the key. The object that it remembers is the older one.
    await addWithPauses(first.queue, [first.view], [WAKEUP]);
    expect(await isPausedNow()).toBe(isPaused);
  },
);

/** A queue that does its first step after `before`, so that the state in this step is older. */
function lateQueue(before: () => Promise<void>): Pick<BullMqWorkQueue, 'add' | 'pauseObjects'> {
  let isLate = true;
  const once = async (): Promise<void> => {
    if (!isLate) return;
    isLate = false;
    await before();
  };
  return {
    add: async (keys: readonly QueuedKey[]) => {
      await once();
      return first.queue.add(keys);
    },
    pauseObjects: async (states: readonly PausedState[]) => {
      await once();
      return first.queue.pauseObjects(states);
    },
  };
}

it.each([
  ['ended', 'a wakeup', false],
  ['begun', 'a wakeup', true],
  ['ended', 'a resync', false],
  ['begun', 'a resync', true],
])('a pause that an event has %s after %s has read the object stays so', async (_, by, isPaused) => {
  await change(first, !isPaused);
  const queue = lateQueue(() => change(first, isPaused));
  if (by === 'a wakeup') await addWithPauses(queue, [first.view], [WAKEUP]);
  else await settlePauses(queue, [first.view], [KEY]);
  expect(await isPausedNow()).toBe(isPaused);
});

it('a pause of an object keeps the time since which it is paused, however often its state is read', async () => {
  await change(first, true);
  const since = async () => (await first.queue.inspector.status(KEY)).pauses.map(({ sinceMs }) => sinceMs);
  await fixture.redis.hset(fixture.keys.pauses, `object/${KEY}`, 5);
  await change(first, true);
  await settlePauses(first.queue, [first.view], [KEY]);
  expect(await since()).toEqual([5]);
});

it('a key that waits for the end of the pause of its object runs when the cache shows the end', async () => {
  await change(first, true);
  await fixture.redis.zadd(`${fixture.keys.pausedPrefix}object`, 7, KEY);
  await write(first, false);
  await settlePauses(first.queue, [first.view], [KEY]);
  expect(await fixture.redis.zscore(fixture.keys.backlog, KEY)).toBe('7');
  expect(await first.queue.inspector.list('waiting', { offset: 0, limit: 1 })).toEqual({ total: 0, keys: [] });
});
