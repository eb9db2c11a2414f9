import { ownValue } from '../../core/index.ts';
import { isJson } from './json.ts';

/**
 * The fields that identify the items of built-in kinds' lists, where their position does not: the keys of strategic
 * merge patches and of server-side apply (`x-kubernetes-patch-merge-key`, `x-kubernetes-list-map-keys`), by the name of
 * the field.
 */
const KEYS: Readonly<Record<string, string>> = {
  addresses: 'type',
  conditions: 'type',
  containers: 'name',
  env: 'name',
  ephemeralContainers: 'name',
  hostAliases: 'ip',
  hostIPs: 'ip',
  imagePullSecrets: 'name',
  initContainers: 'name',
  ownerReferences: 'uid',
  podIPs: 'ip',
  resourceClaims: 'name',
  secrets: 'name',
  topologySpreadConstraints: 'topologyKey',
  volumeDevices: 'devicePath',
  volumeMounts: 'mountPath',
  volumes: 'name',
};

/** Lists that are sets of strings. */
const SETS = new Set(['finalizers', 'podCIDRs']);
/** For every kind: conditions are a map in every CRD that follows the conventions, and all kinds share the metadata. */
const EVERYWHERE = new Set(['conditions', 'finalizers', 'ownerReferences']);

/** `atomic`: the list is one value. */
export type ListForm = { readonly key: string } | 'set' | 'atomic';

/** The form of a list. @param field its name @param isBuiltIn whether the kind is one of Kubernetes' own */
export function listForm(field: string, items: readonly unknown[], isBuiltIn: boolean): ListForm {
  if (!isBuiltIn && !EVERYWHERE.has(field)) return 'atomic';
  if (SETS.has(field)) return 'set';
  if (field === 'ports') {
    // Ports of a container or a Service; those of an EndpointSlice are atomic.
    const key = ['containerPort', 'targetPort', 'nodePort'].find((name) =>
      items.some((item) => isJson(item) && name in item),
    );
    return key === undefined ? 'atomic' : { key: key === 'containerPort' ? key : 'port' };
  }
  const key = ownValue(KEYS, field);
  // Another field may have the same name, so each item must have the key.
  return key !== undefined && items.every((item) => isJson(item) && key in item) ? { key } : 'atomic';
}
