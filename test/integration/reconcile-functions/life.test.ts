import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { formatCrd, CRD_FILE } from '../../../infra/crds/reconcile-function-crd.ts';
import { readFile } from 'node:fs/promises';
import { type KubernetesObject, resource, resourcePath } from '../../../src/core/index.ts';
import { freePort } from '../../../src/testing/process/free-port.ts';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, startObserver } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';
import {
  GATEWAY_LABEL,
  installReconcileFunctions,
  ReconcileFunction,
  settingsFor,
  Tenant,
} from '../../harness/tenant.ts';

const namespace = uniqueName('life');
const started = new Started();
const forConfigMaps = { for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } };
let cluster: Cluster;
let tenant: Tenant;
let setting: Setting;
let redis: Redis;
let watched: Observer<TestProcess>;
let other: Observer;
let gateway: { process: TestProcess; url: string };

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  await installReconcileFunctions(cluster);
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps', 'pods'] }]);
  setting = {
    ...createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') }),
    secret: tenant.secret,
  };
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  // Killed and started again at its port, which no connection may have taken in between.
  const port = await freePort();
  watched = started.keep(await startObserver(setting, { name: 'watched', for: configMaps }, { port }));
  other = started.keep(await startObserver(setting, { name: 'other', for: configMaps, reads: [pods] }));
  gateway = started.keep(await startGateway(setting, [], settingsFor([namespace], [watched.url, other.url])));
  await untilReady(gateway.url);
});

afterAll(() => started.stop());

const touch = async (name: string): Promise<KubernetesObject> =>
  (await cluster.get(configMaps, { namespace, name }))
    ? cluster.patch(configMaps, { namespace, name }, { data: { at: String(Math.random()) } })
    : cluster.create(configMaps, { metadata: { namespace, name }, data: {} });

async function sees(observer: Observer, name: string): Promise<void> {
  const { resourceVersion } = (await touch(name)).metadata;
  await eventually(async () =>
    expect(observer.seen({ key: `${namespace}/${name}` }).at(-1)).toMatchObject({ resourceVersion }),
  );
}

const keysOf = async (name: string): Promise<string[]> =>
  (await redis.keys(`*${setting.keyPrefix}:*`)).filter((key) => key.includes(name));

test('the definition is made of the schema by which the gateway reads: `npm run crds`', async () => {
  expect(await readFile(CRD_FILE, 'utf8')).toBe(formatCrd());
});

test('one that is declared runs, without a restart, and says so', async () => {
  await tenant.declare('watched', { endpoint: { url: watched.url }, ...forConfigMaps });
  await tenant.until('watched', 'Ready', { status: 'True', reason: 'Running', observedGeneration: 1 });
  for (const type of ['Authorized', 'Synced', 'Reachable'] as const)
    await tenant.until('watched', type, { status: 'True' });
  await tenant.until('watched', 'Paused', { status: 'False' });
  const object = await cluster.get(ReconcileFunction, { namespace, name: 'watched' });
  expect(object?.status?.url).toBe(`${watched.url}/`);
  await sees(watched, 'a');
  // In its own namespace alone.
  expect(watched.seen().map(({ key }) => key.split('/')[0])).toEqual(watched.seen().map(() => namespace));
  const events = resource<KubernetesObject & { reason: string; regarding: { name: string } }>(
    'events.k8s.io/v1',
    'Event',
  );
  await eventually(async () => {
    const { items } = await cluster.list(events, namespace);
    expect(items.filter(({ regarding }) => regarding.name === 'watched').map(({ reason }) => reason)).toContain(
      'Running',
    );
  });
});

test('a status that another has written is made good: its address, its conditions, and what it adds', async () => {
  const key = { namespace, name: 'watched' };
  const lastTransitionTime = '2026-01-01T00:00:00Z';
  const forged = (type: string) => ({
    type,
    status: 'False',
    reason: 'Forged',
    message: 'x'.repeat(25_000),
    lastTransitionTime,
  });
  const conditions = ['Ready', ...Array.from({ length: 30 }, (_, at) => `example.com/other-${at}`)].map(forged);
  await cluster.client.json({
    method: 'PATCH',
    path: resourcePath(ReconcileFunction, { ...key, subresource: 'status' }),
    contentType: 'application/merge-patch+json',
    body: { status: { url: 'http://forged.example/', conditions } },
  });
  await eventually(async () => {
    const object = await cluster.get(ReconcileFunction, key);
    expect(object?.status?.url).toBe(`${watched.url}/`);
    expect(object?.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ status: 'True' });
    expect(JSON.stringify(object?.status).length).toBeLessThan(32_768);
  });
});

test('a second one comes and goes without a word to the first', async () => {
  const runs = watched.count;
  await tenant.declare('other', {
    endpoint: { url: other.url },
    ...forConfigMaps,
    reads: [{ apiVersion: 'v1', kind: 'Pod', namespaces: [namespace] }],
  });
  await tenant.until('other', 'Ready', { status: 'True' });
  await sees(other, 'a');
  expect(await keysOf(`queue:${namespace}.other`)).not.toEqual([]);
  expect(await keysOf(':v1/Pod:')).not.toEqual([]);

  await tenant.remove('other');
  // Its queue and all that belongs to it, and the views that nobody else has.
  await eventually(async () =>
    expect([...(await keysOf(`queue:${namespace}.other`)), ...(await keysOf(':v1/Pod:'))]).toEqual([]),
  );
  await sees(watched, 'a');
  expect(
    gateway.process.lines.filter(({ msg }) => msg === 'controller stopped').map(({ controller }) => controller),
  ).toEqual([`${namespace}.other`]);
  // Two changes, and nothing else.
  expect(watched.seen({ from: runs }).map(({ reasons }) => reasons[0]?.type)).toEqual(['updated', 'updated']);
});

test('one of the same name begins anew', async () => {
  const from = other.count;
  await tenant.declare('other', { endpoint: { url: other.url }, ...forConfigMaps });
  await tenant.until('other', 'Ready', { status: 'True' });
  await eventually(async () =>
    expect(other.seen({ from, key: `${namespace}/a` }).at(0)).toMatchObject({ reasons: [{ type: 'initial' }] }),
  );
  await tenant.remove('other');
});

test('a change of its spec is taken while it runs, and loses nothing', async () => {
  const changing = (async () => {
    for (let at = 0; at < 40; at += 1) await touch('b');
  })();
  await tenant.change('watched', { concurrency: 3 });
  await tenant.until('watched', 'Ready', { status: 'True', observedGeneration: 2 });
  await changing;
  await sees(watched, 'b');
  expect(
    gateway.process.lines.some(
      ({ msg, controller }) => msg === 'controller changed' && controller === `${namespace}.watched`,
    ),
  ).toBe(true);
});

test('it is paused by its spec', async () => {
  await tenant.change('watched', { paused: true });
  await tenant.until('watched', 'Paused', { status: 'True', reason: 'PausedBySpec' });
  await tenant.until('watched', 'Ready', { status: 'True', reason: 'Paused' });
  const from = watched.count;
  await touch('c');
  await tenant.change('watched', { paused: false });
  await tenant.until('watched', 'Paused', { status: 'False' });
  await sees(watched, 'c');
  expect(watched.seen({ from }).length).toBeGreaterThan(0);
});

test('it tells of a pause by hand, and of its end', async () => {
  const change = (verb: 'pause' | 'resume') =>
    fetch(`${gateway.url}/queues/${namespace}.watched/${verb}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ scope: 'controller' }),
    });
  expect((await change('pause')).status).toBe(200);
  await tenant.until('watched', 'Paused', { status: 'True', reason: 'PausedByHand' });
  expect((await change('resume')).status).toBe(200);
  await tenant.until('watched', 'Paused', { status: 'False' });
});

test('one that loses its rights stops, says so, and goes on once it has them again', async () => {
  await tenant.deny('config-maps');
  const { message } = await tenant.until('watched', 'Authorized', { status: 'False', reason: 'Forbidden' });
  expect(message).toContain('spec.for');
  await tenant.until('watched', 'Ready', { status: 'False', reason: 'Forbidden' });
  const from = watched.count;
  await touch('d');
  await tenant.allow('config-maps-again', [{ apiGroups: [''], resources: ['configmaps', 'pods'] }]);
  await tenant.until('watched', 'Ready', { status: 'True' });
  await sees(watched, 'd');
  expect(watched.seen({ from, key: `${namespace}/d` }).length).toBeGreaterThan(0);
});

test('one that is deleted and declared again while no gateway runs gets nothing of the one before', async () => {
  const answer = await fetch(`${gateway.url}/queues/${namespace}.watched/pause`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ scope: 'controller' }),
  });
  expect(answer.status).toBe(200);
  await gateway.process.kill('SIGTERM');
  expect((await keysOf(`queue:${namespace}.watched`)).filter((key) => key.endsWith(':pauses'))).toHaveLength(1);
  await tenant.remove('watched');
  await tenant.declare('watched', { endpoint: { url: watched.url }, ...forConfigMaps });
  gateway = started.keep(await startGateway(setting, [], settingsFor([namespace], [watched.url, other.url])));
  await untilReady(gateway.url);
  await sees(watched, 'f');
  await tenant.until('watched', 'Paused', { status: 'False' });
});

test('one that is declared again as paused, while no gateway runs, runs no key before it is resumed', async () => {
  await gateway.process.kill('SIGTERM');
  await tenant.remove('watched');
  await tenant.declare('watched', { endpoint: { url: watched.url }, ...forConfigMaps, paused: true });
  const from = watched.count;
  gateway = started.keep(await startGateway(setting, [], settingsFor([namespace], [watched.url, other.url])));
  await untilReady(gateway.url);
  await tenant.until('watched', 'Paused', { status: 'True', reason: 'PausedBySpec' });
  await tenant.until('watched', 'Synced', { status: 'True' });
  expect(watched.seen({ from })).toEqual([]);
  await tenant.change('watched', { paused: false });
  await sees(watched, 'g');
});

test('one that loses the label that this deployment selects by leaves nothing behind, and may come back', async () => {
  const select = (label: string | null) =>
    cluster.patch(
      ReconcileFunction,
      { namespace, name: 'watched' },
      { metadata: { labels: { [GATEWAY_LABEL]: label } } },
    );
  await select(null);
  await eventually(async () => expect(await keysOf(`queue:${namespace}.watched`)).toEqual([]));
  await select(namespace);
  await sees(watched, 'h');
});

test('a function that does not answer is told from its trigger or its probe', async () => {
  await watched.process.kill('SIGKILL');
  await tenant.change('watched', { timeoutSeconds: 2 });
  await tenant.until('watched', 'Reachable', { status: 'False', reason: 'ConnectionRefused' });
  const again = started.keep(
    await startObserver(setting, { name: 'watched', for: configMaps }, { port: Number(new URL(watched.url).port) }),
  );
  await tenant.until('watched', 'Reachable', { status: 'True' }, 90_000);
  await sees(again, 'e');
});

test('one that is deleted while no gateway runs leaves nothing behind', async () => {
  await gateway.process.kill('SIGTERM');
  await tenant.remove('watched');
  expect(await keysOf(`queue:${namespace}.watched`)).not.toEqual([]);
  gateway = started.keep(await startGateway(setting, [], settingsFor([namespace], [watched.url, other.url])));
  await untilReady(gateway.url);
  await eventually(async () => expect(await keysOf(`queue:${namespace}.watched`)).toEqual([]));
});
