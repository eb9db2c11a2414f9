import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { configMapsOf, type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
const namespace = uniqueName('paused');
let cluster: Cluster;
let observer: Observer;
let gatewayUrl: string;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  await create('before', { 'levelhook.dev/paused': 'true' });
  observer = started.keep(await openObserver(setting, configMapsOf(namespace)));
  gatewayUrl = started.keep(await openGateway(setting, [observer.url])).url;
  await untilReady(gatewayUrl);
});

afterAll(() => started.stop());

const create = (name: string, annotations: Record<string, string> = {}): Promise<unknown> =>
  cluster.create(configMaps, { metadata: { namespace, name, annotations }, data: {} });
const reconciled = (name: string): number => observer.seen({ key: `${namespace}/${name}` }).length;
const waitsOf = async (name: string): Promise<unknown> => {
  const answer = await fetch(`${gatewayUrl}/queues/${observer.name}/keys/${namespace}/${name}`);
  return ((await answer.json()) as { waits: unknown }).waits;
};
const annotate = (name: string, value: string | null): Promise<unknown> =>
  cluster.patch(configMaps, { namespace, name }, { metadata: { annotations: { 'levelhook.dev/paused': value } } });

it('an object that says it is paused is not reconciled, and says why, until it says so no longer', async () => {
  await create('during', { 'levelhook.dev/paused': 'until monday' });
  await create('free');
  await create('later');
  await eventually(async () => expect(reconciled('later')).toBeGreaterThan(0));
  for (const name of ['before', 'during']) {
    const waits = [{ reason: 'paused', by: `object/${namespace}/${name}` }];
    await eventually(async () => expect(await waitsOf(name), name).toEqual(waits));
  }
  await annotate('later', 'true');
  await eventually(async () => expect(await waitsOf('later')).toHaveLength(1));
  expect(reconciled('before') + reconciled('during')).toBe(0);

  await annotate('before', 'false');
  await annotate('during', null);
  await eventually(async () => {
    expect(reconciled('before')).toBeGreaterThan(0);
    expect(reconciled('during')).toBeGreaterThan(0);
  });
  // Deleted while it was paused: that is news, and nothing pauses a key whose object is gone.
  const runs = reconciled('later');
  await cluster.delete(configMaps, { namespace, name: 'later' });
  await eventually(async () => expect(reconciled('later')).toBeGreaterThan(runs));
  await eventually(async () => expect(await waitsOf('later')).toEqual([]));
});

it('a key that a person has paused is not reconciled through events, its annotation and a restart, until resumed', async () => {
  const own = uniqueName('by-hand');
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const watched = await started.cluster(inject('kubeconfig'), own);
  const at = { namespace: own, name: 'held' };
  for (const name of ['held', 'other']) {
    await watched.create(configMaps, { metadata: { namespace: own, name }, data: {} });
  }
  const fn = started.keep(await openObserver(setting, configMapsOf(own)));
  const seen = (name: string): number => fn.seen({ key: `${own}/${name}` }).length;
  const first = started.keep(await startGateway(setting, [fn.url]));
  await eventually(async () => expect([seen('held'), seen('other')]).not.toContain(0));
  await untilIdle(first.url);
  const runs = seen('held');
  const scope = `key/${own}/held`;
  const change = (url: string, verb: 'pause' | 'resume'): Promise<Response> =>
    fetch(`${url}/queues/${fn.name}/${verb}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ scope }),
    });
  const statusOf = async (url: string): Promise<unknown> =>
    (await fetch(`${url}/queues/${fn.name}/keys/${own}/held`)).json();
  const waits = [{ reason: 'paused', by: scope }];
  expect(await (await change(first.url, 'pause')).json()).toMatchObject({ pauses: [{ scope }] });

  await watched.patch(configMaps, at, { data: { changed: 'once' } });
  await eventually(async () => expect(await statusOf(first.url)).toMatchObject({ waits }));
  for (const value of ['true', null]) {
    await watched.patch(configMaps, at, { metadata: { annotations: { 'levelhook.dev/paused': value } } });
    const pauses = [...(value === null ? [] : [{ scope: `object/${own}/held` }]), { scope }];
    await eventually(async () => expect(await statusOf(first.url)).toMatchObject({ pauses }));
  }
  await first.process.kill('SIGKILL');

  // A view of its own: this gateway queues all keys, as a resync does.
  const directory = await started.directory();
  const file = join(directory, 'cache.yaml');
  await writeFile(file, `kinds: {v1/ConfigMap: {namespaces: [${own}]}}\n`);
  const before = seen('other');
  const second = started.keep(await openGateway(setting, [fn.url], { LEVELHOOK_CACHE_FILE: file }));
  await untilReady(second.url);
  await eventually(async () => expect(seen('other')).toBeGreaterThan(before));
  await eventually(async () => expect(await statusOf(second.url)).toMatchObject({ waits, pauses: [{ scope }] }));
  expect(seen('held')).toBe(runs);

  await change(second.url, 'resume');
  await eventually(async () => expect(seen('held')).toBeGreaterThan(runs));
  await eventually(async () => expect(await statusOf(second.url)).toMatchObject({ waits: [], pauses: [] }));
});

it('an object that said so no longer while no gateway watched is reconciled, though its view is filled anew', async () => {
  const own = uniqueName('unpaused');
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const watched = await started.cluster(inject('kubeconfig'), own);
  const paused = { 'levelhook.dev/paused': 'true' };
  for (const name of ['freed', 'deleted', 'still']) {
    await watched.create(configMaps, { metadata: { namespace: own, name, annotations: paused }, data: {} });
  }
  const fn = started.keep(await openObserver(setting, configMapsOf(own)));
  const first = started.keep(await openGateway(setting, [fn.url]));
  const waits = async (url: string, name: string): Promise<unknown[]> => {
    const answer = await fetch(`${url}/queues/${observer.name}/keys/${own}/${name}`);
    return ((await answer.json()) as { waits: unknown[] }).waits;
  };
  for (const name of ['freed', 'deleted', 'still']) {
    await eventually(async () => expect(await waits(first.url, name)).toHaveLength(1));
  }
  await first.process.kill('SIGTERM');
  const key = { namespace: own, name: 'freed' };
  await watched.patch(configMaps, key, { metadata: { annotations: { 'levelhook.dev/paused': null } } });
  await watched.delete(configMaps, { namespace: own, name: 'deleted' });

  // Another cache file is another view, which knows nothing of what has changed.
  const directory = await started.directory();
  const file = join(directory, 'cache.yaml');
  await writeFile(file, `kinds: {v1/ConfigMap: {namespaces: [${own}]}}\n`);
  const second = started.keep(await openGateway(setting, [fn.url], { LEVELHOOK_CACHE_FILE: file }));
  await untilReady(second.url);
  const seen = (name: string): number => fn.seen({ key: `${own}/${name}` }).length;
  await eventually(async () => expect([seen('freed'), seen('deleted')]).not.toContain(0));
  expect(seen('still')).toBe(0);
  expect(await waits(second.url, 'still')).toEqual([{ reason: 'paused', by: `object/${own}/still` }]);
});
