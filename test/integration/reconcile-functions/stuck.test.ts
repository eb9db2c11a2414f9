import type { RunToken } from 'levelhook/function';
import { expect } from 'vitest';
import { importSecret, sign } from '../../../src/contract/index.ts';
import { resource } from '../../../src/core/index.ts';
import { FunctionStatusWriter } from '../../../src/gateway/registration/function-status-writer.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { LONG_RUNNER, longRunner } from '../../harness/long-runner.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const group = `${uniqueName('stuck')}.example.com`;
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const things = resource(`${group}/v1`, 'Thing');
const forConfigMaps = () => ({ for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } });
const readsThings = () => ({ reads: [{ apiVersion: `${group}/v1beta1`, kind: 'Thing', namespaces: [namespace] }] });
let cluster: Cluster;
let namespace: string;
let tenant: Tenant;
let fine: Observer;
let long: ServedFunction;
let gateway: { url: string };
/** Of the runs of `long` that go on. */
const runs: RunToken[] = [];

it.beforeAll(async ({ world }) => {
  const { started } = world;
  ({ cluster, namespace } = world);
  await installReconcileFunctions(cluster);
  started.add(() => cluster.delete(definitions, { name: `things.${group}` }));
  await serveThingsThatCannotBeListed();
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps'] }]);
  await tenant.allow('things', [{ apiGroups: [group], resources: ['things'] }]);
  const setting = { ...world.setting, secret: tenant.secret };
  fine = started.keep(await openObserver(setting, { name: 'fine', for: configMaps }));
  const onRun = (_name: string, { runToken }: { runToken: RunToken | undefined }): void => {
    if (runToken) runs.push(runToken);
  };
  long = await started.open(new ServedFunction(longRunner(namespace, onRun), setting));
  // Both are there before the gateway is.
  await tenant.declare('waiting', { endpoint: { url: fine.url }, ...forConfigMaps(), ...readsThings() });
  await tenant.declare('fine', { endpoint: { url: fine.url }, ...forConfigMaps() });
  gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [fine.url, long.url])));
});

/** A kind whose objects only a webhook could convert, and nobody is there: anybody may have one of those. */
async function serveThingsThatCannotBeListed(): Promise<void> {
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const name = `things.${group}`;
  await cluster.create(definitions, {
    metadata: { name },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind: 'Thing', plural: 'things', singular: 'thing', listKind: 'ThingList' },
      versions: [
        { name: 'v1', served: true, storage: true, schema },
        { name: 'v1beta1', served: true, storage: false, schema },
      ],
    },
  });
  await eventually(async () => cluster.create(things, { metadata: { namespace, name: 'thing' } }));
  const clientConfig = { url: 'https://127.0.0.1:9/convert' };
  await cluster.patch(
    definitions,
    { name },
    { spec: { conversion: { strategy: 'Webhook', webhook: { conversionReviewVersions: ['v1'], clientConfig } } } },
  );
  const beta = resource(`${group}/v1beta1`, 'Thing');
  await eventually(async () => expect(cluster.list(beta, namespace)).rejects.toThrow());
}

it('a ReconcileFunction that waits for a list that never ends says so, and no other waits with it', async () => {
  await untilReady(gateway.url);
  await tenant.until('waiting', 'Synced', { status: 'False', reason: 'CacheFilling' });
  await tenant.until('fine', 'Ready', { status: 'True' });
  await cluster.create(configMaps, { metadata: { namespace, name: 'a' }, data: {} });
  await eventually(async () => expect(fine.seen({ key: `${namespace}/a` })).not.toEqual([]));
});

it('a run that goes on ends by its callback while a change of its ReconcileFunction waits for ever', async () => {
  const { for: configMapsHere } = forConfigMaps();
  const description = { for: configMapsHere, owns: [configMapsHere], timeoutSeconds: 60, callbackSeconds: 60 };
  await tenant.declare(LONG_RUNNER, { endpoint: { url: long.url }, ...description });
  await tenant.until(LONG_RUNNER, 'Ready', { status: 'True' });
  await cluster.create(configMaps, { metadata: { namespace, name: 'long' }, data: { seconds: '60' } });
  await eventually(async () => expect(runs).toHaveLength(1));
  await tenant.change(LONG_RUNNER, readsThings());
  await tenant.until(LONG_RUNNER, 'Synced', { status: 'False', reason: 'CacheFilling', observedGeneration: 2 });
  const { url = '', maxSeconds: _, ...run } = { ...runs[0] };
  const body = JSON.stringify({ version: 'v1', ...run, result: { status: 'done' } });
  const headers = { ...(await sign([await importSecret(tenant.secret)], { id: 'a', nowMs: Date.now(), body })) };
  expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(200);
  await tenant.remove(LONG_RUNNER);
});

it('a ReconcileFunction that is changed to wait for ever goes on as it was, until it loses its rights', async () => {
  // The events that the new one is for are other ones.
  const predicate = { cel: 'object.metadata.name == "none"' };
  await tenant.change('fine', { ...readsThings(), for: { ...forConfigMaps().for, predicate } });
  await tenant.until('fine', 'Synced', { status: 'False', reason: 'CacheFilling', observedGeneration: 2 });
  const from = fine.count;
  await cluster.create(configMaps, { metadata: { namespace, name: 'b' }, data: {} });
  await eventually(async () => expect(fine.seen({ from, key: `${namespace}/b` })).not.toEqual([]));
  await tenant.deny('config-maps');
  await tenant.until('fine', 'Authorized', { status: 'False', reason: 'Forbidden' });
});

it('a ReconcileFunction that waits for ever can be removed', async () => {
  await tenant.remove('waiting');
  await tenant.remove('fine');
  await eventually(async () => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(text).toMatch(/^levelhook_redis_read 1$/m);
    expect(text).not.toMatch(new RegExp(`workqueue_depth\\{[^}]*name="${namespace}`));
  });
});

it('a status is that of the ReconcileFunction for which it was found, never of one that has taken its name', async () => {
  const object = await tenant.declare(
    'twice',
    { endpoint: { url: fine.url }, ...forConfigMaps() },
    { other: 'gateway' },
  );
  const writer = new FunctionStatusWriter({
    client: cluster.client,
    runtime: quietRuntime(),
    leads: () => true,
  });
  const url = 'http://of.another/';
  const { signal } = new AbortController();
  const other = { ...object, metadata: { ...object.metadata, uid: 'another' } };
  await writer.write(other, undefined, { url }, signal);
  const read = () => cluster.get(ReconcileFunction, { namespace, name: 'twice' });
  expect((await read())?.status?.url).not.toBe(url);
  await tenant.remove('twice');
  await eventually(async () => expect(await read()).toBeUndefined());
  await writer.write(object, undefined, { url }, signal);
});
