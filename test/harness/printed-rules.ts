import type { Controller } from 'levelhook/function';
import { manifestsOf } from '../../src/cli/manifest.ts';
import { describe } from '../../src/function/describe.ts';
import { declaredBy } from '../../src/testing/reconciler/run-reconciler.ts';

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

export interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly Rule[];
}

/** The rights to write in all namespaces that `levelhook manifest` prints for a controller. */
export function printedRules(controller: Controller): readonly Rule[] {
  const resources = [...declaredBy(controller), ...(controller.writes ?? []).map(({ resource }) => resource)];
  const options = { namespace: 'any', serviceAccount: 'any', secret: 'any', endpoint: { url: 'http://127.0.0.1' } };
  const manifests = manifestsOf({ ...describe(controller), webhooks: [] }, resources, options);
  return (manifests as unknown as readonly Manifest[]).flatMap(({ kind, metadata, rules = [] }) =>
    kind === 'ClusterRole' && metadata.name.endsWith(':writes') ? rules : [],
  );
}
