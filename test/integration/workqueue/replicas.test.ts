import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { silentLogger, silentMetrics, systemClock } from '../../../src/core/index.ts';
import { generateSecret, type Trigger } from '../../../src/contract/index.ts';
import { importExtractableSecret } from '../../../src/contract/signature.ts';
import { CacheAccess } from '../../../src/gateway/controller/access/cache-access.ts';
import { Dispatcher } from '../../../src/gateway/controller/dispatch/dispatcher.ts';
import { Endpoint } from '../../../src/gateway/controller/endpoint/endpoint.ts';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { freePort } from '../../../src/testing/process/free-port.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RawFunction } from '../../harness/raw-function.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { ownBounds } from '../../harness/own-bounds.ts';

const TIMEOUT_MS = 1000;
const keysOf = (stem: string, count: number): string[] => Array.from({ length: count }, (_, at) => `ns/${stem}${at}`);
const plain = (keys: readonly string[]) => keys.map((key) => ({ key, reasons: [] }));

/** One gateway's half of the line from the queue to the function, which it reaches at an address of its own. */
interface Replica {
  readonly queue: BullMqWorkQueue;
  readonly dispatcher: Dispatcher;
  /** Closed: this replica cannot reach the function, and others can. */
  readonly way: RawFunction;
  /** Keys whose triggers have come this way, in order. */
  readonly reached: string[];
}

let fixture: RedisQueueFixture;
let replicas: Replica[];
const closing: (() => Promise<void>)[] = [];
/** Keys that are running in the function, by whatever way, and those of which two runs were seen at a time. */
let running: Set<string>;
let overlaps: string[];

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  replicas = [];
  running = new Set();
  overlaps = [];
});

afterEach(async () => {
  await fixture.close();
  for (const close of closing.splice(0)) await close();
  expect(overlaps).toEqual([]);
  expect(fixture.troubles).toEqual([]);
});

async function startReplicas(count: number, startWindowMs = 60_000): Promise<void> {
  for (let at = 0; at < count; at += 1) replicas.push(await startReplica(startWindowMs));
}

async function startReplica(startWindowMs: number): Promise<Replica> {
  const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
  const way = new RawFunction({ name: 'web', for: kind, concurrency: 8, timeoutSeconds: 1 });
  const reached: string[] = [];
  const answer = async (trigger: Trigger, response: ServerResponse): Promise<void> => {
    await run(trigger, reached);
    done(response, response.req);
  };
  way.onTrigger = (trigger, response) => void answer(trigger, response);
  // Below the ports that others get while it is closed.
  await way.open(await freePort());
  const endpoint = new Endpoint(way.url, [await importExtractableSecret(generateSecret())], { connections: 8 });
  closing.push(async () => {
    await endpoint.close();
    await way.close();
  });
  const queue = await fixture.open({ concurrency: 8, timeoutMs: TIMEOUT_MS });
  const cacheAccess = new CacheAccess({
    views: [],
    api: undefined,
    clock: systemClock,
  });
  const dispatcher = new Dispatcher({
    bounds: ownBounds(),
    controller: 'web',
    views: [],
    starts: { keys: queue, ending: new AbortController().signal },
    target: { endpoint, cacheAccess },
    runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
    settings: { logTriggers: false, startWindowMs },
  });
  await queue.start(dispatcher);
  return { queue, dispatcher, way, reached };
}

async function run({ requests }: Trigger, reached: string[]): Promise<void> {
  const key = requests.map(({ namespace, name }) => `${namespace}/${name}`).join();
  if (running.has(key)) overlaps.push(key);
  running.add(key);
  reached.push(key);
  await sleep(3);
  running.delete(key);
}

const atRest = (limitMs = 40_000) => eventually(async () => expect(await fixture.pending()).toBe(0), limitMs, 50);
const missing = (keys: readonly string[], where: readonly Replica[]): string[] => {
  const reached = new Set(where.flatMap((replica) => replica.reached));
  return keys.filter((key) => !reached.has(key));
};

/** Adds keys through this replica, a few at a time, as changes come. */
async function addThrough(replica: Replica | undefined, keys: readonly string[]): Promise<void> {
  for (let at = 0; at < keys.length; at += 10) {
    await replica?.queue.add(plain(keys.slice(at, at + 10)));
    await sleep(2);
  }
}

describe.each([2, 3])('of %i gateways', (count) => {
  it('the one that cannot reach the function holds back none of the keys, and goes on by itself', async () => {
    await startReplicas(count);
    const [cut, ...others] = replicas;
    await addThrough(cut, keysOf('before', 100));
    await cut?.way.close();
    const during = keysOf('during', 400);
    await addThrough(cut, during);
    await cut?.queue.addLow(keysOf('low', 100), 'resync');
    await cut?.queue.addAfter('ns/timer', 10);
    await eventually(async () => expect(cut?.dispatcher.circuit).toBeDefined());
    await atRest();
    expect(missing([...during, ...keysOf('low', 100), 'ns/timer'], others)).toEqual([]);
    // A circuit that has opened for another reason closes by a run.
    for (const [at, each] of others.entries()) {
      let tries = 0;
      await eventually(async () => {
        await addThrough(each, keysOf(`alive${at}-${(tries += 1)}-`, 5));
        expect(each.dispatcher.circuit).toBeUndefined();
      });
    }
    await atRest();
    // It tries a key from time to time, which another gateway then runs.
    const later = keysOf('later', 50);
    for (const key of later) {
      await cut?.queue.add(plain([key]));
      await sleep(20);
    }
    await atRest();
    expect(missing(later, others)).toEqual([]);
    await cut?.way.open();
    const before = cut?.reached.length ?? 0;
    let added = 0;
    await eventually(
      async () => {
        await addThrough(cut, keysOf(`after${(added += 1)}-`, 20));
        expect(cut?.dispatcher.circuit).toBeUndefined();
        expect(cut?.reached.length).toBeGreaterThan(before + 10);
      },
      60_000,
      200,
    );
    await atRest();
  });

  it.each([0, 60_000])('one without the function gives away a single key, with a start window of %i ms', async (ms) => {
    await startReplicas(count, ms);
    const [cut, ...others] = replicas;
    await cut?.way.close();
    await cut?.queue.add(plain(['ns/lone']));
    await eventually(async () => expect(missing(['ns/lone'], others)).toEqual([]));
    await atRest();
    // Without a window a single key is too little to judge by.
    if (ms === 0) expect(cut?.dispatcher.circuit).toBeUndefined();
  });

  it('none loses a key while the function is down for all of them', async () => {
    await startReplicas(count);
    for (const { way } of replicas) await way.close();
    const keys = keysOf('k', 300);
    for (const [at, replica] of replicas.entries()) {
      await addThrough(
        replica,
        keys.filter((_, each) => each % count === at),
      );
    }
    await eventually(async () => {
      for (const { dispatcher } of replicas) expect(dispatcher.circuit).toBeDefined();
    });
    await sleep(2000);
    for (const { way } of replicas) await way.open();
    await atRest(60_000);
    expect(missing(keys, replicas)).toEqual([]);
    // A circuit closes by a run that succeeds; the others may have taken all keys.
    for (const [at, replica] of replicas.entries()) {
      let added = 0;
      await eventually(
        async () => {
          await addThrough(replica, keysOf(`after${at}-${(added += 1)}-`, 20));
          expect(replica.dispatcher.circuit).toBeUndefined();
        },
        60_000,
        200,
      );
    }
    await atRest();
  });
});
