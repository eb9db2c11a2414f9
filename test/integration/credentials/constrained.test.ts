import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { resource } from '../../../src/core/index.ts';
import { ApiError, controller, type Reconcile } from '../../../src/function/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, uniqueName } from '../../harness/levelhook.ts';
import { NodeFunction } from '../../harness/node-function.ts';
import { openGateway } from '../../harness/opened.ts';
import { type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor } from '../../harness/tenant.ts';

const RBAC = join(import.meta.dirname, '../../../infra/rbac/credentials-proxy-constrained.yaml');
const accounts = resource('v1', 'ServiceAccount');
const namespace = uniqueName('constrained');
const started = new Started();

let world: ProxiedTenant;
let served: NodeFunction;
let reconcile: Reconcile = async () => {};

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  const handler = controller({ name: 'parent', for: configMaps }).reconcile(async (...run) => reconcile(...run));
  served = await started.open(new NodeFunction(handler, world.tenant.secret));
  const setting = createSetting({ kubeconfig: world.kubeconfig, redisUrl: inject('redisUrl') });
  started.keep(await openGateway(setting, [], settingsFor([namespace], [served.url])));
});
afterAll(() => started.stop());

type Rules = Record<string, unknown>[];
interface Role {
  readonly rules?: Rules;
}

/** The rules of the file, for the account of the test. */
async function constrainedRules(): Promise<Rules> {
  const documents = parseAllDocuments(await readFile(RBAC, 'utf8')).map((each) => each.toJS() as Role);
  const rules = documents.flatMap((each) => each.rules ?? []);
  return rules.map((rule) => ('resourceNames' in rule ? { ...rule, resourceNames: ['reader'] } : rule));
}

it('a gateway that may act as an account within some rights passes on these requests, and no other', async () => {
  await world.tenant.declare('parent', {
    endpoint: { url: served.url },
    credentials: 'proxy',
    for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace], labelSelector: { matchLabels: { a: 'b' } } },
  });
  await world.tenant.until('parent', 'Ready', { status: 'False', reason: 'ImpersonationRefused' });
  await world.account.grantIn(namespace, 'constrained', await constrainedRules());
  await world.tenant.until('parent', 'Ready', { status: 'True' });

  // The account may delete ConfigMaps, and create ServiceAccounts; the gateway may do neither as it.
  await world.tenant.allow('delete', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['delete'] }]);
  const found: unknown[] = [];
  reconcile = async ({ name }, { api }) => {
    if (found.length > 0) return;
    const patched = await api.patch(configMaps, { namespace, name }, { type: 'merge', body: { data: { a: '1' } } });
    const listed = await api.list(configMaps, { namespace });
    const failed = [
      await api.delete(configMaps, { namespace, name }).catch((error: unknown) => error),
      await api.create(accounts, { metadata: { namespace, name: 'made' } }).catch((error: unknown) => error),
    ];
    found.push(
      patched.data,
      listed.items.some(({ metadata }) => metadata.name === name),
      ...failed,
    );
  };
  await world.cluster.create(configMaps, { metadata: { namespace, name: 'one', labels: { a: 'b' } } });
  await eventually(async () => expect(found).toHaveLength(4));
  const [data, isListed, deleted, created] = found;
  expect([data, isListed]).toEqual([{ a: '1' }, true]);
  for (const each of [deleted, created]) {
    expect(each).toBeInstanceOf(ApiError);
    expect(each).toMatchObject({ code: 403, message: expect.stringContaining('cannot impersonate') as string });
  }
  expect(await world.cluster.get(configMaps, { namespace, name: 'one' })).toBeDefined();
});
