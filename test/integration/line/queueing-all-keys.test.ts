import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type CheckpointName, silentLogger } from '../../../src/core/index.ts';
import { Gateway, readConfig } from '../../../src/gateway/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, startObservers } from '../../harness/observer.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('queueing');
const started = new Started();
const { promise: released, resolve: release } = Promise.withResolvers<void>();
let cluster: Cluster;
let observers: Observer[];
let gateway: Gateway;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  for (const name of ['one', 'two', 'three']) {
    await cluster.create(configMaps, { metadata: { namespace, name }, data: {} });
  }
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const description = { for: { resource: configMaps, namespaces: [namespace] } };
  const specs = ['first', 'second'].map((name) => ({ name, timeoutSeconds: 5, ...description }));
  observers = await startObservers(setting, specs);
  for (const observer of observers) started.keep(observer);
  const config = readConfig(
    {
      REDIS_URL: setting.redisUrl,
      LEVELHOOK_KEY_PREFIX: setting.keyPrefix,
      LEVELHOOK_SIGNING_SECRETS: setting.secret,
      LEVELHOOK_FUNCTIONS: observers.map(({ url }) => url).join(' '),
      LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    },
    { kubeconfig: setting.kubeconfig, port: 0 },
  );
  let stands = false;
  // The first that queues all its keys takes until the test is done with it.
  const checkpoint = async (point: CheckpointName): Promise<void> => {
    if (point !== 'initial:between-keys' || stands) return;
    stands = true;
    await released;
  };
  gateway = new Gateway(config, silentLogger, { checkpoint });
  started.add(() => gateway.stop());
  await gateway.start();
});

afterAll(async () => {
  release();
  await started.stop();
});

it('a controller whose keys take long to queue delays no other', async () => {
  const keys = (observer: Observer): string[] =>
    [...new Set(observer.seen().map(({ key }) => key))].filter((key) => !key.includes('kube-root')).toSorted();
  const all = ['one', 'three', 'two'].map((name) => `${namespace}/${name}`);
  await eventually(async () => expect(observers.map(keys)).toContainEqual(all));
  await cluster.create(configMaps, { metadata: { namespace, name: 'later' }, data: {} });
  const withLater = [`${namespace}/later`, ...all];
  await eventually(async () => expect(observers.map(keys)).toContainEqual(withLater));
  // The other one has run nothing yet, and readyz tells why.
  expect(observers.map(keys)).toContainEqual([]);
  expect(await (await fetch(`${gateway.url}/readyz?verbose`)).text()).toContain('its keys are being queued');
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  for (const controller of ['first', 'second']) {
    // A series is there before its first error.
    expect(metrics).toMatch(
      new RegExp(`^controller_runtime_reconcile_errors_total\\{controller="${controller}"\\} [0-9]`, 'm'),
    );
    expect(metrics).toMatch(
      new RegExp(`^controller_runtime_reconcile_total\\{controller="${controller}",result="success"\\} [0-9]`, 'm'),
    );
  }
  release();
  await eventually(async () => expect(observers.map(keys)).toEqual([withLater, withLater]));
  await untilReady(gateway.url);
});
