import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type KubernetesObject, resource, resourcePath } from '../../src/core/index.ts';
import type { Cluster } from './cluster.ts';

const ROOT = join(import.meta.dirname, '../..');
const accounts = resource('v1', 'ServiceAccount');
const clusterRoles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', { namespaced: false });
const bindings = resource('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', { namespaced: false });

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
   * Gives it the rights in a file of `infra/rbac`. Those of a Role count for all names, since the Leases of a test have
   * names of their own, and in all namespaces. Without them a gateway that starts waits for runs that it cannot know.
   */
  async grantFile(file: string): Promise<void> {
    const documents = parseAllDocuments(await readFile(join(ROOT, 'infra/rbac', file), 'utf8'));
    const objects = documents.map((each) => each.toJS() as KubernetesObject & { rules?: Rules });
    await this.grant(
      file,
      objects.flatMap(({ kind, rules = [] }) =>
        kind === 'Role' ? rules.map(({ resourceNames: _, ...rule }) => rule) : rules,
      ),
    );
  }

  async grant(id: string, rules: Rules): Promise<void> {
    const name = this.#nameOf(id);
    await this.#cluster.create(clusterRoles, { metadata: { name }, rules });
    await this.#cluster.create(bindings, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name: 'gateway', namespace: this.#namespace }],
    });
  }

  async revoke(id: string): Promise<void> {
    const name = this.#nameOf(id);
    await this.#cluster.delete(bindings, { name });
    await this.#cluster.delete(clusterRoles, { name });
  }

  #nameOf(id: string): string {
    return `${this.#namespace}-${id.replace(/[^a-z]/g, '-')}`;
  }
}
