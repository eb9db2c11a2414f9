import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type KubernetesObject, resource, resourcePath } from '../../src/core/index.ts';
import type { Cluster } from './cluster.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The file with the Role for the Lease that tells of runs, and the namespace of both. */
const [LEASE_FILE, LEASES] = ['gateway.yaml', 'kube-system'];
const RBAC = 'rbac.authorization.k8s.io';
const accounts = resource('v1', 'ServiceAccount');
const roles = resource(`${RBAC}/v1`, 'Role');
const roleBindings = resource(`${RBAC}/v1`, 'RoleBinding');
const clusterRoles = resource(`${RBAC}/v1`, 'ClusterRole', { namespaced: false });
const bindings = resource(`${RBAC}/v1`, 'ClusterRoleBinding', { namespaced: false });

type Rules = readonly { readonly [field: string]: unknown }[];

/** A ServiceAccount of a test's own namespace, with the rights of a gateway as `infra/rbac` has them. */
export class GatewayAccount {
  readonly #cluster: Cluster;
  readonly #namespace: string;

  constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  /** Creates it, and writes a kubeconfig with a token of it. @returns the path */
  async create(kubeconfig: string, directory: string): Promise<string> {
    const namespace = this.#namespace;
    await this.#cluster.create(accounts, { metadata: { namespace, name: 'gateway' } });
    const { status } = await this.#cluster.client.json<{ status: { token: string } }>({
      method: 'POST',
      path: resourcePath(accounts, { namespace, name: 'gateway', subresource: 'token' }),
      body: { spec: { expirationSeconds: 86_400 } },
    });
    const config = parse(await readFile(kubeconfig, 'utf8')) as { users: { user: object }[] };
    for (const each of config.users) each.user = { token: status.token };
    const path = join(directory, 'gateway.kubeconfig');
    await writeFile(path, stringify(config), { mode: 0o600 });
    return path;
  }

  /**
   * Gives it the rights of the ClusterRoles in a file of `infra/rbac`, and the right to the Lease that tells of runs:
   * the Role of kube-system, for any name, because the name follows the key prefix of a test. Without that right a
   * gateway waits at its start until no earlier run can go on.
   */
  async grantFile(file: string): Promise<void> {
    const documents = parseAllDocuments(await readFile(join(ROOT, 'infra/rbac', file), 'utf8'));
    const objects = documents.map((each) => each.toJS() as KubernetesObject & { rules?: Rules });
    await this.grant(
      file,
      objects.flatMap(({ kind, rules = [] }) => (kind === 'ClusterRole' ? rules : [])),
    );
    if (file !== LEASE_FILE) return;
    // The signing Secret of the test's own tenant.
    const signing = { apiGroups: [''], resources: ['secrets'], resourceNames: ['signing'], verbs: ['get'] };
    await this.grantIn(this.#namespace, 'signing-secret', [signing]);
    const lease = objects.find(({ kind, metadata }) => kind === 'Role' && metadata.namespace === LEASES);
    await this.#grantLease(lease?.rules ?? []);
  }

  async #grantLease(rules: Rules): Promise<void> {
    const metadata = { namespace: LEASES, name: this.#namespace };
    await this.#cluster.create(roles, { metadata, rules: rules.map(({ resourceNames: _, ...rule }) => rule) });
    await this.#cluster.create(roleBindings, {
      metadata,
      roleRef: { apiGroup: RBAC, kind: 'Role', name: this.#namespace },
      subjects: [this.#subject()],
    });
  }

  /** Rights in one namespace, which go with it. */
  async grantIn(namespace: string, name: string, rules: Rules): Promise<void> {
    const metadata = { namespace, name };
    await this.#cluster.create(roles, { metadata, rules });
    const roleRef = { apiGroup: RBAC, kind: 'Role', name };
    await this.#cluster.create(roleBindings, { metadata, roleRef, subjects: [this.#subject()] });
  }

  async grant(id: string, rules: Rules): Promise<void> {
    const name = this.#nameOf(id);
    await this.#cluster.create(clusterRoles, { metadata: { name }, rules });
    await this.#cluster.create(bindings, {
      metadata: { name },
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name },
      subjects: [this.#subject()],
    });
  }

  async revoke(id: string): Promise<void> {
    const name = this.#nameOf(id);
    for (const of of id === LEASE_FILE ? [roleBindings, roles] : []) {
      await this.#cluster.delete(of, { namespace: LEASES, name: this.#namespace });
    }
    await this.#cluster.delete(bindings, { name });
    await this.#cluster.delete(clusterRoles, { name });
  }

  #subject() {
    return { kind: 'ServiceAccount', name: 'gateway', namespace: this.#namespace };
  }

  #nameOf(id: string): string {
    return `${this.#namespace}-${id.replace(/[^a-z]/g, '-')}`;
  }
}
