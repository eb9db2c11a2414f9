import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  commandCalls,
  type FunctionsAtRest,
  sinceThen,
  startFunctionsAtRest,
} from '../../harness/functions-at-rest.ts';
import { Started } from '../../harness/started.ts';

const FUNCTIONS = 100;
/** Rights, Secrets and Services are reviewed several times in it. */
const WINDOW_MS = 15_000;
/** A check of recovery makes four reads for each of 25 queues. For all queues it would be more than 400. */
const READS_OF_A_CHECK = 200;
/** Whenever a worker of BullMQ asks for work anew: about every ten seconds, however many checks fit in between. */
const READS_OF_A_POLL = 4;

const started = new Started();
let redis: Redis;
let atRest: FunctionsAtRest;

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  const cluster = await Cluster.connect(kubeconfig);
  started.add(() => cluster.close());
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  redis = await connectRedis(server.url);
  started.add(async () => redis.disconnect());
  atRest = await startFunctionsAtRest({
    started,
    cluster,
    kubeconfig,
    redisUrl: server.url,
    functions: FUNCTIONS,
    variables: { LEVELHOOK_REVIEW_SECONDS: '2' },
  });
}, 300_000);
afterAll(() => started.stop());

test('functions at rest get no request, and the commands of a check do not grow with their number', async () => {
  // A status is written, and looked at once more, after the first run.
  let before = await atRest.counts();
  await eventually(
    async () => {
      const now = await atRest.counts();
      const isQuiet = JSON.stringify(now) === JSON.stringify(before);
      before = now;
      if (!isQuiet) throw new Error('functions still get requests');
    },
    60_000,
    5000,
  );
  expect(Object.keys(before.runs)).toHaveLength(FUNCTIONS);

  const commands = await commandCalls(redis);
  await sleep(WINDOW_MS);
  const after = new Map(sinceThen(commands, await commandCalls(redis)));
  expect((await atRest.counts()).requests).toEqual(before.requests);

  // Four in each check of recovery, one of them here.
  const checks = Math.floor(((after.get('info') ?? 0) - 1) / 4);
  expect(checks).toBeGreaterThan(3);
  const ofPolls = READS_OF_A_POLL * (after.get('bzpopmin') ?? 0);
  const reads = (after.get('hmget') ?? 0) + (after.get('hget') ?? 0) - ofPolls;
  expect(reads / checks, JSON.stringify([...after])).toBeLessThanOrEqual(READS_OF_A_CHECK);

  // They are asleep, not dead.
  const [name = ''] = atRest.names;
  await atRest.change(name);
  await eventually(async () => expect((await atRest.counts()).runs[name]).toBeGreaterThan(before.runs[name] ?? 0));
  const { requests } = await atRest.counts();
  expect({ ...requests, [name]: 0 }).toEqual({ ...before.requests, [name]: 0 });
});

test('a queue that is lost alone is found in its turn, and all of them at once', { timeout: 300_000 }, async () => {
  const { runs: before } = await atRest.counts();
  const [, name = ''] = atRest.names;
  const [key = ''] = await redis.keys(`*.${name}}:queue`);
  expect(await redis.del(key)).toBe(1);
  await eventually(async () => expect((await atRest.counts()).runs[name]).toBeGreaterThan(before[name] ?? 0), 120_000);

  const { runs } = await atRest.counts();
  await redis.flushall();
  await eventually(async () => {
    const now = (await atRest.counts()).runs;
    expect(atRest.names.filter((each) => (now[each] ?? 0) <= (runs[each] ?? 0))).toEqual([]);
  }, 120_000);
});
