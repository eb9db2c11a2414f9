import { expect } from 'vitest';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { GatewayAccount } from '../../harness/gateway-account.ts';
import { untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const READS = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }];
let tenant: Tenant;
let account: GatewayAccount;
let observer: Observer;
let gateway: { url: string };

it.beforeAll(async ({ world }) => {
  const { cluster, namespace, started } = world;
  await installReconcileFunctions(cluster);
  account = new GatewayAccount(cluster, namespace);
  const kubeconfig = await account.create(world.setting.kubeconfig, await started.directory());
  started.add(() => account.revoke('gateway.yaml'));
  await account.grantFile('gateway.yaml');
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps'] }]);
  const setting = { ...world.setting, kubeconfig, secret: tenant.secret };
  observer = started.keep(await openObserver(setting, { name: 'web', for: configMaps }));
  await tenant.declare('web', {
    endpoint: { url: observer.url },
    for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] },
  });
  gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [observer.url])));
});

it('a ReconcileFunction names the right that the gateway lacks, and works once the gateway has it', async ({
  world,
}) => {
  const { cluster, namespace, started } = world;
  await untilReady(gateway.url);
  const { message } = await tenant.until('web', 'Ready', { status: 'False', reason: 'GatewayForbidden' });
  expect(message).toContain(
    "the gateway's user may not list configmaps, which the gateway needs to cache v1/ConfigMap: grant it get, list, watch",
  );
  expect(message).toContain(
    `User "system:serviceaccount:${namespace}:gateway" cannot list resource "configmaps" in API group "" at the cluster scope`,
  );
  await tenant.until('web', 'Synced', { status: 'False', reason: 'GatewayForbidden' });
  started.add(() => account.revoke('reads'));
  await account.grant('reads', READS);
  await tenant.until('web', 'Synced', { status: 'True', reason: 'CacheComplete' }, 90_000);
  await tenant.until('web', 'Ready', { status: 'True' });
  await cluster.create(configMaps, { metadata: { namespace, name: 'a' }, data: {} });
  await eventually(async () => expect(observer.seen({ key: `${namespace}/a` })).not.toEqual([]));
});
