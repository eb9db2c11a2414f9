import { inject } from 'vitest';
import type { Trigger } from '../../src/contract/index.ts';
import type { Cluster } from './cluster.ts';
import { GatewayAccount } from './gateway-account.ts';
import type { Started } from './started.ts';
import { installReconcileFunctions, Tenant } from './tenant.ts';

/** A tenant whose functions write through a gateway, and the account of that gateway. */
export interface ProxiedTenant {
  readonly cluster: Cluster;
  readonly tenant: Tenant;
  readonly account: GatewayAccount;
  /** A kubeconfig with a token of the gateway's account. */
  readonly kubeconfig: string;
}

/**
 * The ServiceAccount `reader` of the tenant may create, patch and list ConfigMaps and ServiceAccounts of its namespace,
 * and delete neither. The gateway may read them, and has the rights of `infra/rbac`, but not yet those for `proxy`.
 */
export async function proxiedTenant(started: Started, namespace: string): Promise<ProxiedTenant> {
  const cluster = await started.cluster(inject('kubeconfig'), namespace);
  await installReconcileFunctions(cluster);
  const tenant = await new Tenant(cluster, namespace).create();
  const resources = ['configmaps', 'serviceaccounts'];
  await tenant.allow('own', [{ apiGroups: [''], resources }]);
  await tenant.allow('write', [{ apiGroups: [''], resources, verbs: ['create', 'patch', 'update'] }]);
  const account = new GatewayAccount(cluster, namespace);
  const kubeconfig = await account.create(inject('kubeconfig'), await started.directory());
  await account.grantFile('gateway.yaml');
  started.add(() => account.revoke('gateway.yaml'));
  await account.grant('read', [{ apiGroups: [''], resources, verbs: ['get', 'list', 'watch'] }]);
  started.add(() => account.revoke('read'));
  return { cluster, tenant, account, kubeconfig };
}

/** Sends a request to the Kubernetes API of a trigger, as a function without the SDK would. */
export async function ask(
  { kubernetes }: Pick<Trigger, 'kubernetes'>,
  path: string,
  { headers = {}, ...init }: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; text: string }> {
  for (;;) {
    const response = await fetch(`${kubernetes?.url}${path}`, {
      ...init,
      headers: {
        authorization: `Bearer ${kubernetes?.token}`,
        ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    const text = await response.text();
    // The apiserver did not answer the gateway within two seconds: nothing was decided.
    const isUndecided = response.status === 503 && text.includes('does not say whether the ServiceAccount');
    if (!isUndecided || init.body instanceof ReadableStream) {
      return { status: response.status, headers: response.headers, text };
    }
  }
}
