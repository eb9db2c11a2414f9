import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Resource, resource } from '../../../src/core/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const group = `${uniqueName('scope')}.example.com`;
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const inNamespaces = resource(`${group}/v1`, 'Thing');
const inCluster = resource(`${group}/v1`, 'Thing', { namespaced: false });
const renamed = { ...inCluster, plural: 'stuffs' };
let cluster: Cluster;
/** A configured function, a ReconcileFunction, and a function of a gateway that caches a single namespace. */
let observers: readonly Observer[];
let gateways: readonly { readonly url: string }[];

it.beforeAll(async ({ world }) => {
  const { namespace, started } = world;
  ({ cluster } = world);
  await installReconcileFunctions(cluster);
  started.add(async () => {
    const names = [inNamespaces, renamed].map(({ plural }) => `${plural}.${group}`);
    for (const name of names) if (await cluster.get(definitions, { name })) await cluster.delete(definitions, { name });
  });
  await define(inNamespaces);
  const tenant = await new Tenant(cluster, namespace).create();
  await tenant.allowEverywhere(namespace, [{ apiGroups: [group], resources: [inNamespaces.plural, renamed.plural] }]);
  started.add(() => tenant.denyEverywhere(namespace));
  const setting = { ...world.setting, secret: tenant.secret };
  const observe = async (name: string): Promise<Observer> =>
    started.keep(await openObserver(setting, { name, for: inNamespaces }));
  const [configured, declared, limited] = [
    await observe('configured'),
    await observe('declared'),
    await observe('limited'),
  ];
  observers = [configured, declared, limited];
  await tenant.declare('declared', {
    endpoint: { url: declared.url },
    for: { apiVersion: `${group}/v1`, kind: 'Thing' },
  });
  const settings = settingsFor([namespace], [declared.url]);
  const gateway = started.keep(await openGateway(setting, [configured.url], settings));
  const cacheFile = join(await started.directory(), 'cache.yaml');
  await writeFile(cacheFile, JSON.stringify({ kinds: { [`${group}/v1/Thing`]: { namespaces: [namespace] } } }));
  const other = await openGateway({ ...setting, keyPrefix: uniqueName('limited') }, [limited.url], {
    LEVELHOOK_CACHE_FILE: cacheFile,
    LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    LEVELHOOK_REVIEW_SECONDS: '2',
  });
  gateways = [gateway, started.keep(other)];
  await untilAllReady();
});

async function untilAllReady(): Promise<void> {
  for (const { url } of gateways) await untilReady(url);
}

async function define({ plural, namespaced }: Resource): Promise<void> {
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  await cluster.create(definitions, {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: { kind: 'Thing', plural, singular: 'thing', listKind: 'ThingList' },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  });
}

async function replace(before: Resource, now: Resource): Promise<void> {
  const name = `${before.plural}.${group}`;
  await cluster.delete(definitions, { name });
  await eventually(async () => expect(await cluster.get(definitions, { name })).toBeUndefined());
  await define(now);
}

/** A definition is served a moment after it is created. */
async function create(of: Resource, metadata: { name: string; namespace?: string }): Promise<void> {
  await eventually(async () => cluster.create(of, { metadata }));
}

const untilSeen = (key: string): Promise<void> =>
  eventually(async () => {
    for (const observer of observers) expect(observer.seen({ key }), observer.name).not.toEqual([]);
  }, 90_000);

it(
  'a definition that comes back with another scope is followed, without a restart',
  { timeout: 240_000 },
  async ({ world: { namespace } }) => {
    await create(inNamespaces, { namespace, name: 'before' });
    await untilSeen(`${namespace}/before`);
    await replace(inNamespaces, inCluster);
    await create(inCluster, { name: 'afterwards' });
    await untilSeen('afterwards');
    await create(inCluster, { name: 'one-more' });
    await untilSeen('one-more');
    await untilAllReady();
  },
);

it(
  'a definition that comes back with another plural is followed, without a restart',
  { timeout: 240_000 },
  async () => {
    await replace(inCluster, renamed);
    await create(renamed, { name: 'of-another-plural' });
    await untilSeen('of-another-plural');
    await untilAllReady();
  },
);
