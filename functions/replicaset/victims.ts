import type { ContainerStatus, Pod } from '../lib/pod.ts';
import { isActive, isReady, readySince, timeOf } from './pods.ts';

const DELETION_COST = 'controller.kubernetes.io/pod-deletion-cost';
/** Also the rank of an unknown or absent phase. */
const PENDING = 0;
const PHASES: Readonly<Record<string, number>> = { Pending: PENDING, Unknown: 1, Running: 2 };

/** A pod, and the number of related active pods on its node, itself included. */
export interface RankedPod {
  readonly pod: Pod;
  readonly neighbours: number;
}

/** The `count` pods to delete first. `related` are the pods to spread over the nodes together with these. */
export function chooseVictims(pods: readonly Pod[], related: readonly Pod[], count: number, now: number): Pod[] {
  const perNode = new Map<string, number>();
  for (const { spec } of related.filter(isActive)) {
    const node = spec.nodeName ?? '';
    perNode.set(node, (perNode.get(node) ?? 0) + 1);
  }
  return pods
    .map((pod) => ({ pod, neighbours: perNode.get(pod.spec.nodeName ?? '') ?? 0 }))
    .toSorted((a, b) => compareVictims(a, b, now))
    .slice(0, count)
    .map(({ pod }) => pod);
}

/**
 * Negative when `a` is the better victim. The first of the eight rules with a difference decides. Ages are compared by
 * their power of two, and then by UID: among pods of about the same age the choice is random, not the newest first.
 */
export function compareVictims(a: RankedPod, b: RankedPod, now: number): number {
  const uids = a.pod.metadata.uid < b.pod.metadata.uid ? -1 : Number(a.pod.metadata.uid > b.pod.metadata.uid);
  return (
    // 1. Not on a node.
    Number(isAssigned(a.pod)) - Number(isAssigned(b.pod)) ||
    // 2. Pending, then unknown, then running.
    phaseOf(a.pod) - phaseOf(b.pod) ||
    // 3. Not ready.
    Number(isReady(a.pod)) - Number(isReady(b.pod)) ||
    // 4. Cheaper to delete, as its annotation says.
    deletionCost(a.pod) - deletionCost(b.pod) ||
    // 5. More related pods on its node.
    b.neighbours - a.neighbours ||
    // 6. Ready for less time.
    compareAges(readySince(a.pod), readySince(b.pod), now, uids) ||
    // 7. More restarts, of sidecars if those of containers are equal.
    restarts(b.pod.status?.containerStatuses) - restarts(a.pod.status?.containerStatuses) ||
    restarts(sidecarStatuses(b.pod)) - restarts(sidecarStatuses(a.pod)) ||
    // 8. Newer.
    compareAges(timeOf(a.pod.metadata.creationTimestamp), timeOf(b.pod.metadata.creationTimestamp), now, uids) ||
    // The rest by UID, so that the choice is the same each time.
    uids
  );
}

function isAssigned(pod: Pod): boolean {
  return Boolean(pod.spec.nodeName);
}

function phaseOf(pod: Pod): number {
  return PHASES[pod.status?.phase ?? ''] ?? PENDING;
}

/** The annotation's 32-bit integer; 0 when it is missing or invalid. */
function deletionCost(pod: Pod): number {
  const text = pod.metadata.annotations?.[DELETION_COST] ?? '';
  const cost = /^(0|-[0-9]+|[1-9][0-9]*)$/.test(text) ? Number(text) : 0;
  // `| 0` keeps 32 bits, so it changes any number that needs more; -0 becomes 0.
  return (cost | 0) === cost ? cost | 0 : 0;
}

/** Younger first, and pods without a time before all. 0 only for the same moment. */
function compareAges(a: number | undefined, b: number | undefined, now: number, uids: number): number {
  if (a === b) return 0;
  if (a === undefined) return -1;
  if (b === undefined) return 1;
  return ageRank(a, now) - ageRank(b, now) || uids;
}

/** The age's power of two, in nanoseconds as Kubernetes counts; -1 for a time in the future. */
function ageRank(since: number, now: number): number {
  return now > since ? Math.floor(Math.log2((now - since) * 1e6)) : -1;
}

function restarts(statuses: readonly ContainerStatus[] = []): number {
  return Math.max(0, ...statuses.map(({ restartCount }) => restartCount));
}

/** Sidecars are init containers that always restart; they run alongside the containers. */
function sidecarStatuses(pod: Pod): ContainerStatus[] {
  const sidecars = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const names = new Set(sidecars.map(({ name }) => name));
  return (pod.status?.initContainerStatuses ?? []).filter(({ name }) => names.has(name));
}
