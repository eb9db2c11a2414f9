import type { ServerResponse } from 'node:http';
import { describe, expect } from 'vitest';
import type { Trigger } from '../../../src/contract/index.ts';
import { type Condition, resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { done, RawFunction } from '../../harness/raw-function.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it, type World } from '../../harness/world.ts';

const OF_CONFIG_MAPS = [{ apiGroups: [''], resources: ['configmaps'] }];
const OTHERS = 20;
const RBAC = 'rbac.authorization.k8s.io/v1';
const roles = resource(RBAC, 'Role');
const clusterRoles = resource(RBAC, 'ClusterRole', { namespaced: false });
const accounts = resource('v1', 'ServiceAccount');
const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
const RUNS: Partial<Condition> = { status: 'True' };

let world: World;
let cluster: Cluster;
let tenant: Tenant;
let others: Tenant;
let gatewayUrl: string;
/** Of the functions of the tenant, by their names. */
const urls = new Map<string, string>();
const triggers: Trigger[] = [];
/** Runs that go on until the test ends them. */
const held: ServerResponse[] = [];

it.beforeAll(async ({ world: made }) => {
  world = made;
  ({ cluster } = world);
  await installReconcileFunctions(cluster);
  [tenant, others] = (await Promise.all(['revoked', 'others'].map(makeTenant))) as [Tenant, Tenant];
  await others.allow('own', OF_CONFIG_MAPS);
  const names = Array.from({ length: OTHERS }, (_, at) => `other-${at}`);
  for (const name of ['bound', 'everywhere', 'account', 'elsewhere', ...names]) {
    const fn = new RawFunction({ name, for: kind, concurrency: 10, timeoutSeconds: 600 });
    fn.onTrigger = (trigger, response) => {
      triggers.push(trigger);
      if (trigger.requests.some((each) => each.name.startsWith('held-'))) held.push(response);
      else done(response, response.req);
    };
    urls.set(name, (await world.started.open(fn)).url);
  }
  const settings = settingsFor([tenant.namespace, others.namespace], [...urls.values()]);
  // Nothing but events finds a change of rights.
  ({ url: gatewayUrl } = await world.gateway([], { ...settings, LEVELHOOK_REVIEW_SECONDS: '3600' }));
  await Promise.all(names.map((name) => declare(others, name, [others.namespace])));
  await Promise.all(names.map((name) => others.until(name, 'Ready', RUNS)));
});

function declare(of: Tenant, name: string, namespaces?: readonly string[]): Promise<ReconcileFunction> {
  return of.declare(name, {
    endpoint: { url: urls.get(name) },
    for: { ...kind, ...(namespaces && { namespaces }) },
    concurrency: 10,
    timeoutSeconds: 600,
  });
}

async function makeTenant(name: string): Promise<Tenant> {
  const namespace = uniqueName(name);
  await cluster.createNamespace(namespace);
  world.started.add(() => cluster.deleteNamespace(namespace));
  return new Tenant(cluster, namespace).create();
}

/** Waits until a run of the function is under way, with which it reads the cache. @returns the token of the run. */
async function runs(name: string, namespace = tenant.namespace): Promise<string> {
  await tenant.until(name, 'Ready', RUNS);
  const object = uniqueName('held');
  await cluster.create(configMaps, { metadata: { namespace, name: object } });
  const isOfRun = ({ controller, requests }: Trigger): boolean =>
    controller === name && requests.some((each) => each.name === object);
  const token = await eventually(async () => {
    const found = triggers.find(isOfRun)?.cache.token;
    if (found === undefined) throw new Error('no trigger yet');
    return found;
  });
  expect(await read(token, namespace)).toBe(200);
  return token;
}

/** Waits until the run that goes on cannot read any more, ends it, and waits for the condition. */
async function ends(name: string, token: string, reason: string, namespace = tenant.namespace): Promise<void> {
  await eventually(async () => expect(await read(token, namespace)).toBe(401), 60_000, 20);
  release();
  await tenant.until(name, 'Authorized', { status: 'False', reason });
}

function release(): void {
  for (const response of held.splice(0)) done(response, response.req);
}

async function read(token: string, namespace: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(`${gatewayUrl}/cache/api/v1/namespaces/${namespace}/configmaps`, { headers });
  await answer.arrayBuffer();
  return answer.status;
}

/** Since when each of the others runs. */
async function untouched(): Promise<unknown> {
  const { items } = await cluster.list(ReconcileFunction, others.namespace);
  return items.map(({ metadata, status }) => [
    metadata.name,
    status?.conditions?.map(({ type, status: is, lastTransitionTime }) => [type, is, lastTransitionTime]),
  ]);
}

describe('a function whose rights are taken away, with reviews once an hour', () => {
  it('ends when its RoleBinding is deleted, and goes on when it is made again', async () => {
    await tenant.allow('bound', OF_CONFIG_MAPS);
    await declare(tenant, 'bound', [tenant.namespace]);
    const token = await runs('bound');
    const before = await untouched();
    await tenant.deny('bound');
    await ends('bound', token, 'Forbidden');
    const { length } = triggers;
    await cluster.create(configMaps, { metadata: { namespace: tenant.namespace, name: 'unseen' } });
    expect(await untouched()).toEqual(before);
    expect(triggers.slice(length).filter((each) => each.controller === 'bound')).toEqual([]);
    await cluster.delete(roles, { namespace: tenant.namespace, name: 'bound' });
    await tenant.allow('bound', OF_CONFIG_MAPS);
    await runs('bound');
    release();
    await tenant.remove('bound');
  });

  it('ends when its ClusterRole is edited', async () => {
    const role = uniqueName('revoked');
    await tenant.allowEverywhere(role, OF_CONFIG_MAPS);
    world.started.add(() => tenant.denyEverywhere(role));
    await declare(tenant, 'everywhere');
    const token = await runs('everywhere');
    const before = await untouched();
    await cluster.patch(clusterRoles, { name: role }, { rules: [] });
    await ends('everywhere', token, 'Forbidden');
    expect(await untouched()).toEqual(before);
    await tenant.remove('everywhere');
  });

  it('ends with its ServiceAccount, and a new one of the name does not bring its token back', async () => {
    await tenant.allow('account', OF_CONFIG_MAPS);
    await declare(tenant, 'account', [tenant.namespace]);
    const token = await runs('account');
    await cluster.delete(accounts, { namespace: tenant.namespace, name: 'reader' });
    await ends('account', token, 'ServiceAccountNotFound');
    await cluster.create(accounts, { metadata: { namespace: tenant.namespace, name: 'reader' } });
    await runs('account');
    expect(await read(token, tenant.namespace)).toBe(401);
    release();
    await tenant.remove('account');
  });

  it('ends when the namespace goes in which it had them', async () => {
    const gone = uniqueName('gone');
    await cluster.createNamespace(gone);
    await tenant.allow('elsewhere', OF_CONFIG_MAPS, gone);
    // A RoleBinding of another namespace names the account of the tenant.
    await declare(tenant, 'elsewhere', [gone]);
    const token = await runs('elsewhere', gone);
    // As the namespace controller does it.
    await tenant.deny('elsewhere', gone);
    await cluster.delete(roles, { namespace: gone, name: 'elsewhere' });
    await cluster.deleteNamespace(gone);
    await ends('elsewhere', token, 'Forbidden', gone);
    await tenant.remove('elsewhere');
  });
});
