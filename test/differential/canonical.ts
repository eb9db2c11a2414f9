import type { KubernetesObject } from '../../src/core/index.ts';

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Fields that two control planes make differently by nature. */
const OWN = new Set([
  'uid',
  'resourceVersion',
  'creationTimestamp',
  'managedFields',
  'selfLink',
  'containerID',
  // kube-controller-manager remembers the times that it has seen, so its steps decide whether there is one.
  'endpoints.kubernetes.io/last-change-trigger-time',
]);
/** Times of a run: that there is one counts. */
const TIMES = /(Time|Timestamp|timeAdded|At)$/;
/** The times of given objects (`objects.ts`) are of this year, and are compared. */
const GIVEN_TIME = /^2001-/;
/** Addresses that a plane gives out. */
const ADDRESSES = new Set(['podIP', 'podIPs', 'clusterIP', 'clusterIPs', 'hostIP', 'hostIPs']);

/**
 * A canonical form of the objects of a plane: what two planes must agree on. Generated names become the name of the
 * owner with its revision, and a list of pods or slices is a bag. The table in this folder's README names each field
 * that the form leaves out, with the reason.
 */
export function canonical(objects: readonly KubernetesObject[]): string[] {
  const renamed = renames(objects);
  const given = new Set(objects.filter(isGiven).map(({ metadata }) => metadata.name));
  return objects.map((object) => renamed(stable(shown(object, given)))).toSorted();
}

/** Paths at which the objects of two planes differ, at most 40; none when they are the same. */
export function differences(theirs: readonly string[], ours: readonly string[]): string[] {
  const missing = bagOf(theirs, ours);
  const added = bagOf(ours, theirs);
  const found = missing.flatMap((text) => {
    const at = added.findIndex((each) => identity(each) === identity(text));
    if (at < 0) return [`missing: ${text.slice(0, 300)}`];
    const [other = ''] = added.splice(at, 1);
    return pathsOf(JSON.parse(text), JSON.parse(other)).map((path) => `${identity(text)} ${path}`);
  });
  return [...found, ...added.map((text) => `added: ${text.slice(0, 300)}`)].slice(0, 40);
}

function bagOf(all: readonly string[], without: readonly string[]): string[] {
  const left = [...without];
  return all.filter((text) => {
    const at = left.indexOf(text);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

function identity(text: string): string {
  const { kind, metadata, name } = JSON.parse(text) as {
    kind?: string;
    name?: string;
    metadata?: { name?: string; generateName?: string };
  };
  return `${kind ?? ''} ${name ?? metadata?.name ?? metadata?.generateName ?? ''}`;
}

function pathsOf(theirs: unknown, ours: unknown, path = ''): string[] {
  if (stable(theirs) === stable(ours)) return [];
  const isNested = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
  if (!isNested(theirs) || !isNested(ours)) return [`${path}: ${stable(theirs)} and ${stable(ours)}`];
  const keys = new Set([...Object.keys(theirs), ...Object.keys(ours)]);
  return [...keys].flatMap((key) => pathsOf(theirs[key], ours[key], `${path}.${key}`));
}

/** Replaces generated names and hashes, the longest first. */
function renames(objects: readonly KubernetesObject[]): (text: string) => string {
  const names = new Map<string, string>();
  for (const { kind, metadata } of objects) {
    const [owner] = metadata.ownerReferences ?? [];
    if (kind !== 'ReplicaSet' || owner?.kind !== 'Deployment') continue;
    const hash = metadata.labels?.['pod-template-hash'] ?? '';
    const revision = metadata.annotations?.['deployment.kubernetes.io/revision'] ?? '';
    names.set(metadata.name, `${owner.name}@${revision}`);
    if (hash !== '') names.set(`"${hash}"`, `"${owner.name}@${revision}"`);
  }
  const found = [...names].toSorted(([a], [b]) => b.length - a.length);
  return (text) => found.reduce((left, [name, canonicalName]) => left.replaceAll(name, canonicalName), text);
}

/** Whether a pod was given by name. No controller has made it, and its node and addresses are given, too. */
function isGiven({ kind, metadata }: KubernetesObject): boolean {
  return kind === 'Pod' && metadata.generateName === undefined;
}

function shown(object: KubernetesObject, given: ReadonlySet<string>): unknown {
  const { kind, metadata } = object;
  const kept = masked(object, isGiven(object) ? new Set() : ADDRESSES) as Record<string, unknown>;
  const named = kept['metadata'] as Record<string, unknown>;
  if (metadata.generateName !== undefined) delete named['name'];
  if (kind === 'ReplicaSet') replicaSetOf(object, kept);
  if (kind === 'Deployment' || kind === 'Pod') conditionsOf(kept);
  if (kind === 'Pod') podOf(kept);
  if (kind === 'EndpointSlice') sliceOf(kept, given);
  if (kind === 'Endpoints') endpointsOf(kept, given);
  if (kind === 'Node') taintsOf(kept);
  for (const map of ['annotations', 'labels']) if (stable(named[map]) === '{}') delete named[map];
  return kept;
}

/** The writes of a Deployment's ReplicaSet are not counted. Whether its status is of the last one is compared. */
function replicaSetOf({ metadata }: KubernetesObject, kept: Record<string, unknown>): void {
  if (!metadata.ownerReferences?.some(({ kind }) => kind === 'Deployment')) return;
  const named = kept['metadata'] as Record<string, unknown>;
  const status = kept['status'] as Record<string, unknown>;
  status['observedGeneration'] = status['observedGeneration'] === named['generation'] ? 'current' : 'behind';
  delete named['generation'];
  const annotations = named['annotations'] as Record<string, unknown>;
  for (const each of ['desired-replicas', 'max-replicas']) delete annotations[`deployment.kubernetes.io/${each}`];
}

/** Which pod of a set runs on which node is the scheduler's choice. */
function podOf(pod: Record<string, unknown>): void {
  const spec = pod['spec'] as Record<string, unknown>;
  if ((pod['metadata'] as Record<string, unknown>)['name'] === undefined) delete spec['nodeName'];
  for (const volume of (spec['volumes'] ?? []) as { name: string }[]) {
    if (volume.name.startsWith('kube-api-access-')) volume.name = 'kube-api-access';
  }
  for (const container of spec['containers'] as { volumeMounts?: { name: string }[] }[]) {
    for (const mount of container.volumeMounts ?? []) {
      if (mount.name.startsWith('kube-api-access-')) mount.name = 'kube-api-access';
    }
  }
}

function sliceOf(slice: Record<string, unknown>, given: ReadonlySet<string>): void {
  // How often a slice was written.
  delete (slice['metadata'] as Record<string, unknown>)['generation'];
  const endpoints = (slice['endpoints'] ?? []) as Record<string, unknown>[];
  for (const endpoint of endpoints) targetOf(endpoint, 'addresses', given);
  slice['endpoints'] = inOrder(endpoints);
  slice['ports'] = inOrder(slice['ports']);
}

function endpointsOf(endpoints: Record<string, unknown>, given: ReadonlySet<string>): void {
  for (const subset of (endpoints['subsets'] ?? []) as Record<string, unknown>[]) {
    for (const list of ['addresses', 'notReadyAddresses']) {
      const addresses = (subset[list] ?? []) as Record<string, unknown>[];
      for (const address of addresses) targetOf(address, 'ip', given);
      if (subset[list] !== undefined) subset[list] = inOrder(addresses);
    }
    subset['ports'] = inOrder(subset['ports']);
  }
}

/** Name, node and address of a pod that a controller has made are its plane's. */
function targetOf(endpoint: Record<string, unknown>, address: string, given: ReadonlySet<string>): void {
  const target = endpoint['targetRef'] as { kind?: string; name?: string } | undefined;
  if (target?.kind !== 'Pod' || given.has(target.name ?? '')) return;
  endpoint[address] = '*';
  delete target.name;
  delete endpoint['nodeName'];
  delete endpoint['zone'];
}

/** Two workers of kube-controller-manager add taints. */
function taintsOf(node: Record<string, unknown>): void {
  const spec = node['spec'] as Record<string, unknown>;
  spec['taints'] = inOrder(spec['taints']);
}

/** Lists whose order kube-controller-manager takes from a map. */
function inOrder(list: unknown): unknown {
  return Array.isArray(list) ? list.toSorted((a, b) => (stable(a) < stable(b) ? -1 : 1)) : list;
}

/** The API finds conditions by their type. A patch puts a new one first. */
function conditionsOf(object: Record<string, unknown>): void {
  const { conditions = [] } = (object['status'] ?? {}) as { conditions?: { type: string }[] };
  conditions.sort((a, b) => (a.type < b.type ? -1 : 1));
}

function masked(value: unknown, addresses: ReadonlySet<string>, key = ''): unknown {
  if (addresses.has(key)) return '*';
  if (TIMES.test(key) && typeof value === 'string') return GIVEN_TIME.test(value) ? value : '*';
  if (Array.isArray(value)) return value.map((each) => masked(each, addresses));
  if (!isPlainObject(value)) return value;
  const kept = Object.entries(value).filter(([name]) => !OWN.has(name));
  return Object.fromEntries(kept.map(([name, each]) => [name, masked(each, addresses, name)]));
}

/** JSON with the keys in order. */
export function stable(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === 'bigint') return `${each}n`;
    if (!isPlainObject(each)) return each;
    return Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
