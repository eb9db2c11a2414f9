import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { resource, silentLogger } from '../../src/core/index.ts';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import { DispatchLease } from '../../src/gateway/recovery/dispatch-lease.ts';
import { type Cluster, leases } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';

describe('the Lease that tells an empty Redis from a first start', () => {
  const started = new Started();
  const account = uniqueName('account');
  const group = 'rbac.authorization.k8s.io';
  let cluster: Cluster;
  let client: ApiClient;
  let warned: string[];

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), uniqueName('rights'));
    const directory = await started.directory();
    const config = parse(await readFile(inject('kubeconfig'), 'utf8')) as { users: { user: object }[] };
    for (const { user } of config.users) Object.assign(user, { as: `system:serviceaccount:default:${account}` });
    await writeFile(join(directory, 'config'), stringify(config));
    const credentials = await loadCredentials(join(directory, 'config'));
    started.add(() => credentials.close());
    client = new ApiClient(credentials);
  });

  afterAll(() => started.stop());

  beforeEach(() => void (warned = []));

  function leaseOf(keyPrefix: string): DispatchLease {
    const warn = (fields: object): void => void warned.push((fields as { lease: string }).lease);
    const logger = { ...silentLogger, warn };
    // At time 1, no Lease is older than the longest run.
    const clock = { now: () => 1, wallNow: () => 1, sleep: async () => {} };
    const location = { keyPrefix, registryKey: keyPrefix };
    return new DispatchLease({
      runtime: { clock, logger },
      client,
      location,
      clusterId: undefined,
      gateway: uniqueName('gateway'),
    });
  }

  it('the rights of infra/rbac/gateway.yaml allow the Lease, and without them the gateway waits at each Redis process', async () => {
    const keyPrefix = uniqueName('prefix');
    const forbidden = leaseOf(keyPrefix);
    expect((await forbidden.take('redis')).beforeMs).toBe(1);
    await forbidden.release(0);
    const [path = ''] = warned;
    const name = path.replace('kube-system/', '');

    const documents = parseAllDocuments(await readFile('infra/rbac/gateway.yaml', 'utf8'));
    const role = documents
      .map((document) => document.toJS() as { kind: string; rules: { resourceNames: string[] }[] })
      .find(({ kind }) => kind === 'Role');
    const rules = role?.rules.map((rule) => ({ ...rule, resourceNames: [name] })) ?? [];
    const metadata = { namespace: 'kube-system', name: account };
    await cluster.create(resource(`${group}/v1`, 'Role'), { metadata, rules });
    await cluster.create(resource(`${group}/v1`, 'RoleBinding'), {
      metadata,
      roleRef: { apiGroup: group, kind: 'Role', name: account },
      subjects: [{ kind: 'ServiceAccount', namespace: 'default', name: account }],
    });

    // The apiserver learns of a new Role a moment later.
    const allowed = await eventually(async () => {
      const lease = leaseOf(keyPrefix);
      expect((await lease.take('redis')).beforeMs).toBe(0);
      return lease;
    });
    expect(await cluster.get(leases, { namespace: 'kube-system', name })).toMatchObject({
      spec: { holderIdentity: 'redis' },
    });
    await leaseOf(keyPrefix).take('another');
    await allowed.release(0);
    expect(await cluster.get(leases, { namespace: 'kube-system', name })).toMatchObject({
      spec: { holderIdentity: 'another' },
    });
    await eventually(async () => {
      // Another process each time: a Lease that was not released in time stays for its own.
      const last = leaseOf(keyPrefix);
      expect((await last.take(uniqueName('third'))).beforeMs).toBe(1);
      await last.release(1);
      const lease = await cluster.get(leases, { namespace: 'kube-system', name });
      expect(lease?.spec).toEqual({ renewTime: expect.any(String) as string });
    });
  });
});
