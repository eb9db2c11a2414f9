import { expect } from 'vitest';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const otherNamespace = uniqueName('few');
const ofNamespace = (name: string) => ({ for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [name] } });
let namespace: string;
let tenant: Tenant;
let other: Tenant;
let observer: Observer;

it.beforeAll(async ({ world }) => {
  const { cluster, started } = world;
  ({ namespace } = world);
  await cluster.createNamespace(otherNamespace);
  started.add(() => cluster.deleteNamespace(otherNamespace));
  await installReconcileFunctions(cluster);
  const configMapsOnly = [{ apiGroups: [''], resources: ['configmaps'] }];
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('config-maps', configMapsOnly);
  other = await new Tenant(cluster, otherNamespace).create();
  await other.allow('config-maps', configMapsOnly);
  const setting = { ...world.setting, secret: tenant.secret };
  observer = started.keep(await openObserver(setting, { name: 'c', for: configMaps }));
  // There before the gateway is, in another order than that of their names.
  await declare('b');
  await declareInOneSecond('d', 'a');
  const settings = {
    ...settingsFor([namespace, otherNamespace], [observer.url]),
    LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE: '2',
    // So that nothing but the deletion itself starts the next one.
    LEVELHOOK_REVIEW_SECONDS: '3600',
  };
  const gateway = started.keep(await openGateway(setting, [], settings));
  await untilReady(gateway.url);
});

const declare = (name: string) => tenant.declare(name, { endpoint: { url: observer.url }, ...ofNamespace(namespace) });

/** In a later second than all before: creationTimestamp counts seconds. */
async function declareInOneSecond(...names: readonly string[]): Promise<void> {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const seconds = new Set<unknown>();
    for (const name of names) seconds.add((await declare(name)).metadata.creationTimestamp);
    if (seconds.size === 1) return;
    for (const name of names) await tenant.remove(name);
  }
}

const tooMany = { status: 'False', reason: 'TooManyFunctions' } as const;

it('the oldest ReconcileFunctions of a namespace run, and the next one starts when one of them goes', async ({
  world,
}) => {
  // Two of the same second go by name.
  await tenant.until('b', 'Synced', { status: 'True' });
  await tenant.until('a', 'Synced', { status: 'True' });
  const { message } = await tenant.until('d', 'Ready', tooMany);
  expect(message).toContain('runs 2 ReconcileFunctions');
  expect(message).toContain('LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE');

  // One that comes later waits behind it, and what another namespace has does not count.
  await declareInOneSecond('c');
  await tenant.until('c', 'Ready', tooMany);
  await other.declare('c', { endpoint: { url: observer.url }, ...ofNamespace(otherNamespace) });
  await other.until('c', 'Synced', { status: 'True' });

  await tenant.remove('b');
  await tenant.until('d', 'Synced', { status: 'True' });
  expect(await tenant.condition('c', 'Ready')).toMatchObject(tooMany);
  await tenant.remove('a');
  await tenant.until('c', 'Ready', { status: 'True' });
  await world.cluster.create(configMaps, { metadata: { namespace, name: 'x' }, data: {} });
  await eventually(async () => expect(observer.seen({ key: `${namespace}/x` })).not.toEqual([]));
});
