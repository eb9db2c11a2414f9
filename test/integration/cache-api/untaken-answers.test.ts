import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { CacheApiServer } from '../../harness/cache-api-server.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createView } from '../../harness/views.ts';

/** Of 1 MB each. */
const OBJECTS: KubernetesObject[] = Array.from({ length: 20 }, (_, at) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: {
    namespace: 'a',
    name: `object-${String(at).padStart(2, '0')}`,
    uid: `u-${at}`,
    resourceVersion: `${at + 1}`,
  },
  data: { text: 'x'.repeat(1_000_000) },
}));
const NAMES = OBJECTS.map(({ metadata }) => metadata.name);
const SCOPE = { 'v1/ConfigMap': '*' } as const;

interface Page {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly KubernetesObject[];
}

let redis: Redis;
let server: CacheApiServer;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  await applierOf(view).apply(listOf('100', OBJECTS));
  server = await CacheApiServer.start({ views: () => [view] });
});

afterAll(async () => {
  await server.close();
  redis.disconnect();
});

const headersOf = (controller: string) => ({ authorization: `Bearer ${server.token(SCOPE, controller)}` });

/** Asks for an answer and reads no byte of it, as a client does that hangs. */
async function untaken(controller: string, query = ''): Promise<IncomingMessage> {
  const request = get(`${server.url}/api/v1/configmaps${query}`, { headers: headersOf(controller), agent: false });
  request.on('error', () => {});
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  return answer;
}

it('a page of large objects has fewer than were asked for, and names the next one', async () => {
  const pages: Page[] = [];
  for (let next: string | undefined = ''; next !== undefined; next = pages.at(-1)?.metadata.continue) {
    const query = `limit=500${next === '' ? '' : `&continue=${encodeURIComponent(next)}`}`;
    const answer = await fetch(`${server.url}/api/v1/configmaps?${query}`, { headers: headersOf('one.page') });
    expect(answer.status).toBe(200);
    pages.push((await answer.json()) as Page);
  }
  expect(pages.flatMap(({ items }) => items.map(({ metadata }) => metadata.name))).toEqual(NAMES);
  expect(Math.max(...pages.map(({ items }) => items.length))).toBeLessThan(10);
});

it('a list of large objects comes whole', async () => {
  const answer = await fetch(`${server.url}/api/v1/configmaps`, { headers: headersOf('one.list') });
  const { items } = (await answer.json()) as Page;
  expect(items).toMatchObject(OBJECTS);
});

it.each([
  ['lists', ''],
  ['pages', '?limit=500'],
])('%s that a tenant does not take have a bound, and another tenant reads', async (_, query) => {
  const answers: IncomingMessage[] = [];
  while (answers.at(-1)?.statusCode !== 429) {
    answers.push(await untaken(`many.reader-${answers.length}`, query));
    expect(answers.length).toBeLessThan(40);
  }
  const other = await fetch(`${server.url}/api/v1/configmaps`, { headers: headersOf('other.reader') });
  expect(((await other.json()) as Page).items).toHaveLength(OBJECTS.length);
  // The memory is free again when clients have gone, or have read.
  for (const answer of answers) answer.destroy();
  await eventually(async () => {
    const again = await fetch(`${server.url}/api/v1/configmaps`, { headers: headersOf('many.reader') });
    await again.arrayBuffer();
    expect(again.status).toBe(200);
  });
});
