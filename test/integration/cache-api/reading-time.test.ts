import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type Clock, type KubernetesObject, resource, systemClock } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { threadMs } from '../../../src/ground/time-slice.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { encodeContinue } from '../../../src/gateway/http/cache-api/continue-token.ts';
import { CacheApiServer } from '../../harness/cache-api-server.ts';
import { configMaps } from '../../harness/cluster.ts';
import { createView } from '../../harness/views.ts';

const roles = resource('rbac.authorization.k8s.io/v1', 'Role');
const metadata = (at: number) => ({
  namespace: 'a',
  name: `object-${String(at).padStart(4, '0')}`,
  uid: `u-${at}`,
  resourceVersion: `${at + 1}`,
});
const RULE = { apiGroups: ['apps'], resources: ['deployments', 'replicasets'], verbs: ['get', 'list', 'watch'] };
/** Of 1.5 MB each, and 10 to 15 KB in Redis. */
const LARGE: KubernetesObject[] = Array.from({ length: 40 }, (_, at) => ({
  apiVersion: roles.apiVersion,
  kind: roles.kind,
  metadata: metadata(at),
  rules: Array.from({ length: 16_000 }, () => RULE),
}));
/** Of 300 bytes each. */
const SMALL: KubernetesObject[] = Array.from({ length: 5000 }, (_, at) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadata(at),
  data: { text: 'x'.repeat(170) },
}));
const NO_MATCH = '?labelSelector=no%3Dmatch';
const LARGE_PATH = `/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles${NO_MATCH}`;
const SMALL_PATH = '/api/v1/namespaces/a/configmaps';
const SCOPE = { 'rbac.authorization.k8s.io/v1/Role': '*', 'v1/ConfigMap': '*' } as const;

let nowMs = systemClock.now();
/** Goes on while reads wait, so that a busy machine gives them no more time for their work. */
const clock: Clock = { ...systemClock, now: () => nowMs, sleep: async (ms) => void (nowMs += ms) };
let redis: Redis;
let server: CacheApiServer;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  const views: View[] = [];
  for (const [kind, objects] of [
    [roles, LARGE],
    [configMaps, SMALL],
  ] as const) {
    const view = createView(redis, kind);
    await view.writer.claim('writer');
    await applierOf(view).apply(listOf('9000', objects));
    views.push(view);
  }
  server = await CacheApiServer.start({ views: () => views, clock });
});

afterAll(async () => {
  await server.close();
  redis.disconnect();
});

async function ask(controller: string, path: string) {
  const headers = { authorization: `Bearer ${server.token(SCOPE, controller)}` };
  const answer = await fetch(`${server.url}${path}`, { headers });
  const { items } = (await answer.json()) as { items?: unknown[] };
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), count: items?.length };
}

/** Processor time of the longest turn of the event loop until the work ends. */
async function longestTurn(work: Promise<unknown>): Promise<number> {
  const ended = new AbortController();
  const end = (): void => ended.abort();
  work.then(end, end);
  let longest = 0;
  while (!ended.signal.aborted) {
    const from = threadMs();
    await nextTurn();
    longest = Math.max(longest, threadMs() - from);
  }
  return longest;
}

/** Processor time that this machine needs for one of the large objects now. */
function oneLargeMs(): number {
  const text = JSON.stringify(LARGE[0]);
  const from = threadMs();
  for (let at = 0; at < 5; at += 1) JSON.parse(text);
  return (threadMs() - from) / 5;
}

it('lists of large objects that select none of them leave the thread to others between two objects', async () => {
  const lists = Promise.all(['one.a', 'one.b', 'two.a'].map((controller) => ask(controller, LARGE_PATH)));
  const longest = await longestTurn(lists);
  for (const list of await lists) expect(list).toEqual({ status: 200, retryAfter: null, count: 0 });
  // A turn has one object. To decompress and to check it takes some parses, and all 40 take 60 or more.
  expect(longest).toBeLessThan(10 * oneLargeMs());
});

/** Of a list that was begun before the cache was filled anew. */
const FORMER = encodeContinue({ version: '1', incarnations: 'former', after: '' });

it.each<[string, string, number | undefined, number?]>([
  ['many objects', `${SMALL_PATH}${NO_MATCH}`, 0],
  ['many names', `/api/v1/configmaps?fieldSelector=metadata.name%3Dnone`, 0],
  ['one object of a large index', `${SMALL_PATH}?levelhook-orphans=a&limit=1`, 1],
  ['a page too late', `${SMALL_PATH}?levelhook-orphans=a&limit=1&continue=${FORMER}`, undefined, 410],
])(
  'a tenant that reads %s without a pause is refused, and another tenant reads',
  async (_, path, count, status = 200) => {
    nowMs += 60_000;
    const round = () => Promise.all(Array.from({ length: 40 }, (_each, at) => ask(`many.${at}`, path)));
    const first = round();
    const other = ask('other.reader', `${SMALL_PATH}/object-0000`);
    expect(await Promise.race([first, other])).toMatchObject({ status: 200 });
    const answers = await first;
    while (!answers.some((answer) => answer.status === 429)) {
      answers.push(...(await round()));
      expect(answers.length).toBeLessThan(1500);
    }
    for (const answer of answers) {
      expect([
        { status, retryAfter: null, count },
        { status: 429, retryAfter: '1', count: undefined },
      ]).toContainEqual(answer);
    }
    expect(answers[0]).toMatchObject({ status });
    expect(await ask('other.reader', `${SMALL_PATH}${NO_MATCH}`)).toMatchObject({ status: 200, count: 0 });
    nowMs += 5000;
    expect(await ask('many.reader', SMALL_PATH)).toMatchObject({ status: 200, count: SMALL.length });
  },
);
