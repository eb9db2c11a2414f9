import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { AuditedRequest } from './audit-log.ts';
import { userOf } from './identity.ts';

const ROOT = join(import.meta.dirname, '../..');

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly namespace?: string };
  readonly rules?: readonly Rule[];
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** One verb on one resource. */
export interface Right {
  readonly verb: string;
  /** '' for the core group, `*` for any. */
  readonly group: string;
  /** With its subresource: `replicasets/status`; `*` for any. */
  readonly resource: string;
  /** Of the Role; undefined for a right of a ClusterRole. */
  readonly namespace: string | undefined;
}

/**
 * The rights in `functions/NAME/rbac.yaml` that the function has not used, each as `verb group/resource`. A resource
 * `*` is used when any is. Rights on finalizers are left out, since no request is made on these: see `finalizerRights`.
 */
export async function unusedRights(requests: readonly AuditedRequest[], name: string): Promise<string[]> {
  const own = requests.filter(({ user, authorized }) => user === userOf(name) && authorized);
  const rights = (await rightsOf(name)).filter((right) => !isOnFinalizers(right));
  const unused = rights.filter((right) => !own.some((request) => isUsedBy(right, request)));
  return unused.map(({ verb, group, resource }) => `${verb} ${group ? `${group}/` : ''}${resource}`);
}

/**
 * The rights in `functions/NAME/rbac.yaml` on the finalizers of a resource. The admission plugin
 * OwnerReferencesPermissionEnforcement, which is off by default, asks for them when an owner reference is written that
 * blocks the deletion of its owner.
 */
export async function finalizerRights(name: string): Promise<Right[]> {
  return (await rightsOf(name)).filter(isOnFinalizers);
}

async function rightsOf(name: string): Promise<Right[]> {
  const text = await readFile(join(ROOT, `functions/${name}/rbac.yaml`), 'utf8');
  const manifests = parseAllDocuments(text).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
  return manifests.flatMap(({ kind, metadata, rules = [] }) =>
    rules.flatMap(({ apiGroups, resources, verbs, ...others }) => {
      const [unknown] = Object.keys(others);
      if (unknown) throw new Error(`functions/${name}/rbac.yaml: this test does not check the use of ${unknown}`);
      const namespace = kind === 'Role' ? metadata.namespace : undefined;
      return apiGroups.flatMap((group) =>
        resources.flatMap((resource) => verbs.map((verb) => ({ verb, group, resource, namespace }))),
      );
    }),
  );
}

function isOnFinalizers({ resource }: Right): boolean {
  return resource.endsWith('/finalizers');
}

function isUsedBy({ verb, group, resource, namespace }: Right, request: AuditedRequest): boolean {
  return (
    verb === request.verb &&
    (group === '*' || group === request.group) &&
    (resource === '*' || resource === request.resource) &&
    (namespace === undefined || namespace === request.namespace)
  );
}
