import { ownValue } from '../../core/index.ts';
import { isJson } from './json.ts';

/**
 * How the items of a built-in kind's list are told apart, where that is not by their place: the keys of strategic merge
 * patches and of server-side apply (`x-kubernetes-patch-merge-key`, `x-kubernetes-list-map-keys`), by the name of the
 * field.
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

/** Lists that are sets of texts. */
const SETS = new Set(['finalizers', 'podCIDRs']);
/** Of any kind: conditions are a map in every CRD that follows the conventions, and metadata is the same for all. */
const EVERYWHERE = new Set(['conditions', 'finalizers', 'ownerReferences']);

/** `atomic`: the list is one value. */
export type ListForm = { readonly key: string } | 'set' | 'atomic';

/** What a list is. @param field its name @param isBuiltIn whether the kind is one of Kubernetes' own */
export function listForm(field: string, items: readonly unknown[], isBuiltIn: boolean): ListForm {
  if (!isBuiltIn && !EVERYWHERE.has(field)) return 'atomic';
  if (SETS.has(field)) return 'set';
  if (field === 'ports') {
    // A container's and a Service's; an EndpointSlice's is atomic.
    const key = ['containerPort', 'targetPort', 'nodePort'].find((name) =>
      items.some((item) => isJson(item) && name in item),
    );
    return key === undefined ? 'atomic' : { key: key === 'containerPort' ? key : 'port' };
  }
  const key = ownValue(KEYS, field);
  // A field of the same name elsewhere: each item must have the key.
  return key !== undefined && items.every((item) => isJson(item) && key in item) ? { key } : 'atomic';
}
