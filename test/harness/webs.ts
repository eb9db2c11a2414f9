import { type KubernetesObject, type Resource, resource } from '../../src/core/index.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import type { Started } from './started.ts';

/** Two kinds of a test's own group, with a spec of anything and a status: `Web` in namespaces, `Site` without. */
export interface WebKinds {
  readonly webs: Resource;
  readonly sites: Resource;
}

const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

export async function defineWebs(started: Started, cluster: Cluster, group: string): Promise<WebKinds> {
  const webs = resource(`${group}/v1`, 'Web');
  const sites = resource(`${group}/v1`, 'Site', { namespaced: false });
  for (const { kind, plural, namespaced } of [webs, sites]) {
    const name = `${plural}.${group}`;
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const spec = {
      group,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: 'v1', served: true, storage: true, schema, subresources: { status: {} } }],
    };
    await cluster.create(definitions, { metadata: { name }, spec });
    started.add(() => cluster.delete(definitions, { name }));
  }
  // Established a moment after it is created.
  await eventually(async () => {
    await cluster.list(webs);
    await cluster.list(sites);
  });
  return { webs, sites };
}

/** `metadata.ownerReferences` to these, of which the one that is named `controller` manages the object. */
export function referencesTo(owners: readonly KubernetesObject[], manager?: KubernetesObject): object[] {
  return owners.map((owner) => ({
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    ...(owner === manager ? { controller: true } : {}),
  }));
}
