import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { expect } from 'vitest';
import { CRD_FILE } from '../../infra/crds/reconcile-function-crd.ts';
import { type Condition, type KubernetesObject, type ObjectKey, resource, resourcePath } from '../../src/core/index.ts';
import { generateSecret } from '../../src/contract/index.ts';
import type { ConditionType } from '../../src/gateway/registration/condition-type.ts';
import { ReconcileFunction } from '../../src/gateway/registration/reconcile-function.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';

export { ReconcileFunction };

const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const secrets = resource('v1', 'Secret');
const accounts = resource('v1', 'ServiceAccount');
const roles = resource('rbac.authorization.k8s.io/v1', 'Role');
const roleBindings = resource('rbac.authorization.k8s.io/v1', 'RoleBinding');
const clusterRoles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', { namespaced: false });
const clusterRoleBindings = resource('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', { namespaced: false });

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs?: readonly string[];
}

/**
 * Creates the definition of ReconcileFunction as its file has it, or leaves it as it is, and waits until it is served.
 */
export async function installReconcileFunctions(cluster: Cluster): Promise<void> {
  const definition = parse(await readFile(new URL(`../../${CRD_FILE}`, import.meta.url), 'utf8')) as KubernetesObject;
  const { name } = definition.metadata;
  await cluster.client.json({
    method: 'PATCH',
    path: resourcePath(definitions, { name }),
    query: { fieldManager: 'test', force: true },
    contentType: 'application/apply-patch+yaml',
    body: definition,
  });
  await eventually(async () => cluster.list(ReconcileFunction, 'default'));
}

/** A tenant's namespace, with a ServiceAccount and a signing Secret for its functions. */
export class Tenant {
  readonly cluster: Cluster;
  readonly namespace: string;
  /** What the functions' triggers are signed with. */
  readonly secret = generateSecret();

  constructor(cluster: Cluster, namespace: string) {
    this.cluster = cluster;
    this.namespace = namespace;
  }

  /** The ServiceAccount `reader` and the Secret `signing`; the namespace must be there. */
  async create(): Promise<this> {
    const { cluster, namespace } = this;
    await cluster.create(accounts, { metadata: { namespace, name: 'reader' } });
    await cluster.create(secrets, { metadata: { namespace, name: 'signing' }, stringData: { secrets: this.secret } });
    return this;
  }

  /** Lets the ServiceAccount `reader` read, in its own namespace or in that named. */
  async allow(name: string, rules: readonly Rule[], namespace = this.namespace): Promise<void> {
    await this.cluster.create(roles, { metadata: { namespace, name }, rules: rules.map(complete) });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name };
    await this.cluster.create(roleBindings, { metadata: { namespace, name }, roleRef, subjects: [this.#reader()] });
  }

  /** Lets it read in the whole cluster. The name is the cluster's: remove it with `deny`. */
  async allowEverywhere(name: string, rules: readonly Rule[]): Promise<void> {
    await this.cluster.create(clusterRoles, { metadata: { name }, rules: rules.map(complete) });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name };
    await this.cluster.create(clusterRoleBindings, { metadata: { name }, roleRef, subjects: [this.#reader()] });
  }

  async deny(name: string, namespace = this.namespace): Promise<void> {
    await this.cluster.delete(roleBindings, { namespace, name });
  }

  async denyEverywhere(name: string): Promise<void> {
    await this.cluster.delete(clusterRoleBindings, { name });
    await this.cluster.delete(clusterRoles, { name });
  }

  /** A ReconcileFunction of this tenant; `spec` says what is not as with any other. */
  async declare(
    name: string,
    spec: Readonly<Record<string, unknown>>,
    labels: Readonly<Record<string, string>> = {},
  ): Promise<ReconcileFunction> {
    return this.cluster.create(ReconcileFunction, {
      metadata: { namespace: this.namespace, name, labels: { [GATEWAY_LABEL]: this.namespace, ...labels } },
      spec: { serviceAccountName: 'reader', signingSecret: { name: 'signing' }, ...spec },
    });
  }

  async change(name: string, spec: object): Promise<ReconcileFunction> {
    return this.cluster.patch(ReconcileFunction, { namespace: this.namespace, name }, { spec });
  }

  async condition(name: string, type: ConditionType): Promise<Condition | undefined> {
    const object = await this.cluster.get(ReconcileFunction, { namespace: this.namespace, name });
    return object?.status?.conditions?.find((each) => each.type === type);
  }

  /** Waits for a condition to say this. */
  async until(name: string, type: ConditionType, expected: Partial<Condition>, limitMs = 60_000): Promise<Condition> {
    return eventually(async () => {
      const found = await this.condition(name, type);
      expect(found, JSON.stringify(found)).toMatchObject(expected);
      return found as Condition;
    }, limitMs);
  }

  async remove(name: string): Promise<void> {
    const key: ObjectKey = { namespace: this.namespace, name };
    await this.cluster.delete(ReconcileFunction, key);
  }

  #reader() {
    return { kind: 'ServiceAccount', name: 'reader', namespace: this.namespace };
  }
}

/** With this label a test's gateway finds the test's own objects: `LEVELHOOK_RECONCILE_FUNCTIONS`. */
export const GATEWAY_LABEL = 'test.levelhook.dev/gateway';

/** The settings of a gateway for ReconcileFunctions of these namespaces, whose functions are at these URLs. */
export function settingsFor(namespaces: readonly string[], urls: readonly string[]): Record<string, string> {
  return {
    LEVELHOOK_RECONCILE_FUNCTIONS: `${GATEWAY_LABEL} in (${namespaces.join(', ')})`,
    LEVELHOOK_ALLOWED_ENDPOINTS: urls.map((url) => new URL(url).origin).join(' '),
    LEVELHOOK_REVIEW_SECONDS: '2',
  };
}

function complete({ apiGroups, resources, verbs = ['get', 'list', 'watch'] }: Rule): Rule {
  return { apiGroups, resources, verbs };
}
