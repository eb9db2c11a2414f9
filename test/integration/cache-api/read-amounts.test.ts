import { afterAll, beforeAll, expect, inject, it, vi } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import type { Selection } from '../../../src/contract/selection.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { CacheApiServer } from '../../harness/cache-api-server.ts';
import { configMaps } from '../../harness/cluster.ts';
import { createView } from '../../harness/views.ts';

const things = resource('example.com/v1', 'Thing');
const OWNER = 'u-owner';

/** Without a controller, but for the last 30. */
const ORPHANS: KubernetesObject[] = Array.from({ length: 6000 }, (_, at) => {
  const controller = { apiVersion: 'v1', kind: 'Owner', name: 'o', uid: OWNER, controller: true };
  const name = `object-${String(at).padStart(4, '0')}`;
  const metadata = { namespace: 'a', name, uid: `u-${at}`, resourceVersion: `${at + 1}` };
  const owned = at < 5970 ? {} : { ownerReferences: [controller] };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...metadata, ...owned } };
});
/** Nested too deep for the cache: only marks of them are kept. */
const TOO_DEEP: KubernetesObject[] = Array.from({ length: 1000 }, (_, at) => {
  const metadata = { namespace: 'deep', name: `thing-${at}`, uid: `u-${at}`, resourceVersion: `${at + 1}` };
  const spec = JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`) as unknown;
  return { apiVersion: things.apiVersion, kind: things.kind, metadata, spec };
});
const PLAIN: KubernetesObject = {
  apiVersion: things.apiVersion,
  kind: things.kind,
  metadata: { namespace: 'plain', name: 'thing', uid: 'u', resourceVersion: '2000' },
};
const INDEX = 'field:spec.a';
const NO_NAME = { field: 'metadata.name', operator: '=', value: 'none' } as const;
const SCOPE = { 'v1/ConfigMap': '*', 'example.com/v1/Thing': '*' } as const;
const ORPHANS_PATH = '/api/v1/namespaces/a/configmaps?levelhook-orphans=a';
const THINGS_PATH = '/apis/example.com/v1';

let redis: Redis;
let server: CacheApiServer;
let configMapsView: View;
let applier: Applier;
/** For an event that moves a view's version. */
let requests = 0;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  configMapsView = createView(redis, configMaps);
  const thingsView = createView(redis, things);
  const views = [configMapsView, thingsView];
  await Promise.all(views.map(({ writer }) => writer.claim('writer')));
  applier = applierOf(configMapsView);
  await applier.apply(listOf('9000', ORPHANS));
  thingsView.indexer.maintain([INDEX]);
  await thingsView.indexer.record([INDEX]);
  await applierOf(thingsView).apply(listOf('9000', [...TOO_DEEP, PLAIN]));
  server = await CacheApiServer.start({ views: () => views, onProgress: () => void (requests += 1) });
});

afterAll(async () => {
  await server.close();
  redis.disconnect();
});

interface List {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly KubernetesObject[];
  readonly keptOut?: readonly { readonly key: string }[];
}

async function ask(path: string) {
  const headers = { authorization: `Bearer ${server.token(SCOPE)}` };
  const answer = await fetch(`${server.url}${path}`, { headers });
  return { status: answer.status, body: (await answer.json()) as List };
}

/** What one read takes from Redis. No other read is under way. */
async function bytesOf(path: string) {
  const before = redis.stream.bytesRead;
  const { status, body } = await ask(path);
  expect(status).toBe(200);
  const names = body.items.map(({ metadata }) => metadata.name);
  return { bytes: redis.stream.bytesRead - before, names, keptOut: body.keptOut ?? [], body };
}

it('a page of a large index takes no more from Redis than the page has', async () => {
  const page = await bytesOf(`${ORPHANS_PATH}&limit=1`);
  expect(page.names).toEqual(['object-0000']);
  expect(page.bytes).toBeLessThan(4096);
  const next = await bytesOf(`${ORPHANS_PATH}&limit=1&continue=${page.body.metadata.continue}`);
  expect(next.names).toEqual(['object-0001']);
  expect(next.bytes).toBeLessThan(4096);
});

it('a list by a large index has each object of the index, whatever namespace its path names', async () => {
  const all = ORPHANS.slice(0, 5970).map(({ metadata }) => metadata.name);
  expect((await bytesOf(ORPHANS_PATH)).names).toEqual(all);
  expect((await bytesOf('/api/v1/configmaps?levelhook-orphans=a')).names).toEqual(all);
  expect((await bytesOf(`/api/v1/configmaps?levelhook-controlledBy=a/${OWNER}`)).names).toHaveLength(30);
});

it('a list of a namespace takes no mark of an object of another namespace that is kept out', async () => {
  for (const selection of ['', `?levelhook-index=${INDEX}=x`]) {
    const other = await bytesOf(`${THINGS_PATH}/namespaces/plain/things${selection}`);
    expect(other.names).toEqual(selection === '' ? ['thing'] : []);
    expect(other.keptOut).toEqual([]);
    expect(other.bytes, selection).toBeLessThan(4096);
    const own = await bytesOf(`${THINGS_PATH}/namespaces/deep/things${selection}`);
    expect(own.keptOut).toHaveLength(TOO_DEEP.length);
  }
});

it('a list is charged for the objects that it asks Redis for, and less for keys that it passes over', async () => {
  const charged = async (selection: Selection) => {
    let [ms, found] = [0, 0];
    const pace = <T>(work: () => T, spentMs = 0): T => {
      ms += spentMs;
      return work();
    };
    const reader = configMapsView.reader();
    const state = await reader.state(selection);
    if (!state) throw new Error('the view is not complete');
    for await (const batch of reader.select(selection, { state, commandBytes: 1e6, pace })) found += batch.length;
    return { ms, found };
  };
  const [keys, objects] = [await charged({ fields: [NO_NAME] }), await charged({ namespace: 'a' })];
  expect([keys.found, objects.found]).toEqual([0, ORPHANS.length]);
  expect(keys.ms).toBeGreaterThan(0);
  expect(objects.ms).toBeGreaterThan(5 * keys.ms);
});

it('many requests that wait for a version look at the view together, and each ends when the view has its version', async () => {
  const sent = vi.spyOn(redis, 'sendCommand');
  const versions = [...Array.from({ length: 60 }, () => 99_999), 9500];
  const asked = versions.map((version) =>
    ask(`/api/v1/namespaces/a/configmaps/object-0000?resourceVersion=${version}`),
  );
  const [changed] = ORPHANS;
  const metadata = { ...(changed?.metadata as KubernetesObject['metadata']), resourceVersion: '9500' };
  await applier.apply([{ kind: 'changed', object: { apiVersion: 'v1', kind: 'ConfigMap', metadata } }]);
  expect(await asked.at(-1)).toMatchObject({ status: 200, body: { metadata: { resourceVersion: '9500' } } });
  const answers = await Promise.all(asked);
  expect(answers.filter(({ status }) => status === 504)).toHaveLength(60);
  // Each reads the view's state at its beginning and its end; alone it would look some 150 times.
  expect(sent.mock.calls.length).toBeLessThan(60 * 20);
  sent.mockRestore();
  expect(requests).toBeGreaterThan(0);
  expect(requests).toBeLessThan(10);
});
