import { ownValue } from '../../core/index.ts';
import { isJson, type Json } from './json.ts';

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

/**
 * The second key that server-side apply alone knows, by the first one, with the default of the apiserver's schema. It
 * is a field of ports and of topologySpreadConstraints.
 */
const SECOND_KEYS: Readonly<Record<string, { readonly key: string; readonly absent?: string }>> = {
  containerPort: { key: 'protocol', absent: 'TCP' },
  port: { key: 'protocol', absent: 'TCP' },
  topologyKey: { key: 'whenUnsatisfiable' },
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

/** The fields that identify an item for server-side apply, with their values as text. @param key of its list's form */
export function identityOf(item: Json, key: string): Readonly<Record<string, string>> {
  const first = { [key]: String(item[key]) };
  const second = ownValue(SECOND_KEYS, key);
  if (!second) return first;
  const { [second.key]: value = second.absent } = item;
  return { ...first, [second.key]: String(value) };
}
