import { type KubernetesObject, matchesLabels, resource } from '../../../src/core/index.ts';
import type { Description, IndexSpec } from '../../../src/contract/index.ts';

/** The world of the histories: small, so that everything collides with everything. */
export interface SetObject extends KubernetesObject {
  spec: { selector: Record<string, string>; config: string };
}

export const sets = resource<SetObject>('levelhook.test/v1', 'Set');
export const pods = resource('v1', 'Pod');
export const configs = resource('v1', 'ConfigMap');
export const kinds = [sets, pods, configs];

export const SET_INDEXES: readonly IndexSpec[] = ['annotation:ref', 'field:spec.config', 'selector:spec.selector'];

/** Every way of being woken at once. */
export const description: Description = {
  version: 'v1',
  name: 'histories',
  for: sets,
  owns: [pods],
  watches: [
    { ...pods, map: { by: 'selector', path: 'spec.selector' } },
    { ...configs, map: { by: 'index', index: 'field:spec.config' } },
    { ...sets, map: { by: 'index', index: 'annotation:ref' } },
    { ...configs, map: { by: 'annotation', annotation: 'to' } },
    { ...pods, map: { by: 'owner', owner: 'any' } },
  ],
  reads: [],
  indexes: [],
  concurrency: 1,
  timeoutSeconds: 1,
};

export const NAMESPACES = ['a', 'b'] as const;
export const NAMES = ['x', 'y', 'z'] as const;
const NONE = '';

/** An object of kind number `kind`; `variant` says to what it refers. */
export function objectOf(kind: number, key: { namespace: string; name: string }, variant: number) {
  const pick = (values: readonly string[], by: number): string =>
    values[Math.floor(variant / by) % values.length] ?? '';
  if (kind === 0) {
    const ref = pick([NONE, ...NAMES], 1);
    return {
      metadata: { ...key, ...(ref ? { annotations: { ref } } : {}) },
      spec: {
        selector: pick([NONE, 'p', 'q'], 4) ? { app: pick([NONE, 'p', 'q'], 4) } : {},
        config: pick([...NAMES], 12),
      },
    };
  }
  if (kind === 1) {
    const owner = pick([NONE, ...NAMES], 1);
    const app = pick([NONE, 'p', 'q'], 4);
    const ownerReferences = [
      // Half of the owners do not manage their pods.
      {
        apiVersion: sets.apiVersion,
        kind: sets.kind,
        name: owner,
        uid: `of-${owner}`,
        controller: Math.floor(variant / 12) % 2 === 0,
      },
    ];
    return { metadata: { ...key, ...(owner ? { ownerReferences } : {}), ...(app ? { labels: { app } } : {}) } };
  }
  const to = pick([NONE, ...NAMES], 1);
  return { metadata: { ...key, ...(to ? { annotations: { to } } : {}) }, data: { variant: String(variant) } };
}

/** What is in the three kinds, as the cache or the server has it. */
export type Snapshot = readonly ReadonlyMap<string, KubernetesObject>[];

/**
 * Everything that a reconcile of this Set would look at, as text: two of them are equal exactly when no event that the
 * description says wakes the Set lies between them.
 */
export function sightOf(key: string, [ofSets, ofPods, ofConfigs]: Snapshot): string {
  const set = ofSets?.get(key) as SetObject | undefined;
  if (!set) return 'absent';
  const { namespace, name, annotations } = set.metadata;
  const isNear = (object: KubernetesObject): boolean => object.metadata.namespace === namespace;
  const related = [
    set,
    ...[...(ofPods?.values() ?? [])].filter((pod) => {
      if (!isNear(pod)) return false;
      if (pod.metadata.ownerReferences?.some((owner) => owner.name === name)) return true;
      return matchesLabels({ matchLabels: set.spec.selector }, pod.metadata.labels);
    }),
    ...[...(ofConfigs?.values() ?? [])].filter(
      (config) =>
        isNear(config) && (config.metadata.name === set.spec.config || config.metadata.annotations?.['to'] === name),
    ),
    ofSets?.get(`${namespace}/${annotations?.['ref']}`),
  ];
  return related
    .flatMap((object) =>
      object
        ? [`${object.kind} ${object.metadata.name} ${object.metadata.uid}@${object.metadata.resourceVersion}`]
        : [],
    )
    .toSorted()
    .join(', ');
}
