import type { KubernetesObject } from '../../src/core/index.ts';

/**
 * What `canonical` leaves out, because a function is otherwise than kube-controller-manager and says so in its README:
 *
 * - The hash in the name, the labels and the selector of a Deployment's ReplicaSet (functions/deployment/README.md).
 * - The annotations `desired-replicas` and `max-replicas` of a ReplicaSet, which the function brings up to date also
 *   when the size is right (the same README).
 * - How many writes a ReplicaSet or an EndpointSlice took (`generation`): a step scales an old ReplicaSet down once.
 *
 * And what no two planes have in common: times, addresses, versions, names that are drawn, the node of a pod that was
 * scheduled, and orders that kube-controller-manager takes from a map.
 */

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Fields that two control planes make differently by nature. */
const OWN = new Set(['uid', 'resourceVersion', 'creationTimestamp', 'managedFields', 'selfLink', 'containerID']);
/** Times: that there is one counts. */
const TIMES = /(Time|Timestamp|timeAdded|At)$/;
/** Addresses that a plane gives out. */
const ADDRESSES = new Set(['podIP', 'podIPs', 'clusterIP', 'clusterIPs', 'hostIP', 'hostIPs']);

/**
 * A canonical form of the objects of a plane: what two planes must agree on. Generated names become the name of the
 * owner with its revision, and a list of pods or slices is a bag.
 */
export function canonical(objects: readonly KubernetesObject[]): string[] {
  const renamed = renames(objects);
  return objects.map((object) => renamed(stable(shown(object)))).toSorted();
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
    if (kind !== 'ReplicaSet' || owner === undefined) continue;
    const hash = metadata.labels?.['pod-template-hash'] ?? '';
    const revision = metadata.annotations?.['deployment.kubernetes.io/revision'] ?? '';
    names.set(metadata.name, `${owner.name}@${revision}`);
    if (hash !== '') names.set(`"${hash}"`, `"${owner.name}@${revision}"`);
  }
  const found = [...names].toSorted(([a], [b]) => b.length - a.length);
  return (text) => found.reduce((left, [name, canonicalName]) => left.replaceAll(name, canonicalName), text);
}

function shown(object: KubernetesObject): unknown {
  const { kind, metadata } = object;
  const isGenerated = metadata.generateName !== undefined;
  const kept = masked(object) as Record<string, unknown>;
  const named = kept['metadata'] as Record<string, unknown>;
  if (isGenerated) {
    delete named['name'];
    if (kind === 'Pod') delete named['generation'];
  }
  // How many steps a controller took to scale.
  if (kind === 'ReplicaSet') delete named['generation'];
  if (kind === 'ReplicaSet')
    forget(
      named,
      ['desired-replicas', 'max-replicas'].map((each) => `deployment.kubernetes.io/${each}`),
    );
  if (kind === 'ReplicaSet') delete (kept['status'] as Record<string, unknown> | undefined)?.['observedGeneration'];
  if (kind === 'Deployment') messagesOf(kept);
  if (kind === 'Pod') podOf(kept);
  if (kind === 'EndpointSlice') sliceOf(kept);
  if (kind === 'Endpoints') endpointsOf(kept);
  for (const map of ['annotations', 'labels']) if (stable(named[map]) === '{}') delete named[map];
  return kept;
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

function sliceOf(slice: Record<string, unknown>): void {
  const metadata = slice['metadata'] as Record<string, unknown>;
  // How often a slice was written.
  delete metadata['generation'];
  forgetTrigger(metadata);
  const endpoints = (slice['endpoints'] ?? []) as Record<string, unknown>[];
  for (const endpoint of endpoints) targetOf(endpoint, 'addresses');
  slice['endpoints'] = inOrder(endpoints);
  slice['ports'] = inOrder(slice['ports']);
}

function endpointsOf(endpoints: Record<string, unknown>): void {
  forgetTrigger(endpoints['metadata'] as Record<string, unknown>);
  for (const subset of (endpoints['subsets'] ?? []) as Record<string, unknown>[]) {
    for (const list of ['addresses', 'notReadyAddresses']) {
      const addresses = (subset[list] ?? []) as Record<string, unknown>[];
      for (const address of addresses) targetOf(address, 'ip');
      if (subset[list] !== undefined) subset[list] = inOrder(addresses);
    }
    subset['ports'] = inOrder(subset['ports']);
  }
}

function forgetTrigger(metadata: Record<string, unknown>): void {
  forget(metadata, ['endpoints.kubernetes.io/last-change-trigger-time']);
}

function forget(metadata: Record<string, unknown>, names: readonly string[]): void {
  const annotations = metadata['annotations'] as Record<string, unknown> | undefined;
  for (const name of names) if (annotations) delete annotations[name];
}

/** The address of a pod is its plane's, and so are name and node of a pod that a controller has made. */
function targetOf(endpoint: Record<string, unknown>, address: string): void {
  const target = endpoint['targetRef'] as { kind?: string; name?: string } | undefined;
  if (target?.kind !== 'Pod') return;
  endpoint[address] = '*';
  if (/^pod-\d+$/.test(target.name ?? '')) return;
  delete target.name;
  delete endpoint['nodeName'];
  delete endpoint['zone'];
}

/** Lists whose order kube-controller-manager takes from a map. */
function inOrder(list: unknown): unknown {
  return Array.isArray(list) ? list.toSorted((a, b) => (stable(a) < stable(b) ? -1 : 1)) : list;
}

/** Sentences name generated names. */
function messagesOf(deployment: Record<string, unknown>): void {
  const { conditions = [] } = (deployment['status'] ?? {}) as { conditions?: { type: string }[] };
  conditions.sort((a, b) => (a.type < b.type ? -1 : 1));
}

function masked(value: unknown, key = ''): unknown {
  if (ADDRESSES.has(key)) return '*';
  if (TIMES.test(key) && typeof value === 'string') return '*';
  if (Array.isArray(value)) return value.map((each) => masked(each));
  if (!isPlainObject(value)) return value;
  const kept = Object.entries(value).filter(([name]) => !OWN.has(name));
  return Object.fromEntries(kept.map(([name, each]) => [name, masked(each, name)]));
}

/** JSON with the keys in order. */
export function stable(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === 'bigint') return `${each}n`;
    if (!isPlainObject(each)) return each;
    return Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
