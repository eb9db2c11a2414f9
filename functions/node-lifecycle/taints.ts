import type { Node, NodeCondition, Taint } from 'levelhook/function/kinds';

export const NOT_READY = 'node.kubernetes.io/not-ready';
export const UNREACHABLE = 'node.kubernetes.io/unreachable';
const UNSCHEDULABLE = 'node.kubernetes.io/unschedulable';

/** The taint for a condition, by type and status. */
const TAINT_OF: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Ready: { False: NOT_READY, Unknown: UNREACHABLE },
  MemoryPressure: { True: 'node.kubernetes.io/memory-pressure' },
  DiskPressure: { True: 'node.kubernetes.io/disk-pressure' },
  PIDPressure: { True: 'node.kubernetes.io/pid-pressure' },
  NetworkUnavailable: { True: 'node.kubernetes.io/network-unavailable' },
};

const OWN_NO_SCHEDULE = new Set([
  UNSCHEDULABLE,
  ...Object.values(TAINT_OF).flatMap((byStatus) => Object.values(byStatus)),
]);

export function taintsOf(node: Node): readonly Taint[] {
  return node.spec?.taints ?? [];
}

export function conditionOf(node: Node, type: string): NodeCondition | undefined {
  return node.status?.conditions?.find((each) => each.type === type);
}

/** The node's own status of its readiness; undefined when it has never been reported. */
export function readyStatus(node: Node): string | undefined {
  return conditionOf(node, 'Ready')?.status;
}

/** Whether the node has a taint for being not ready or unreachable. */
export function isTaintedAsLost(node: Node, effect: 'NoSchedule' | 'NoExecute'): boolean {
  return taintsOf(node).some((taint) => isLost(taint) && taint.effect === effect);
}

/** The taint of a node that is not ready; undefined for a node that is ready, or has not reported. */
export function lostTaintKey(node: Node): string | undefined {
  return TAINT_OF['Ready']?.[readyStatus(node) ?? ''];
}

export function isLost({ key }: Taint): boolean {
  return key === NOT_READY || key === UNREACHABLE;
}

/**
 * All taints of the node, with the NoSchedule taints that its conditions and `unschedulable` require; undefined when it
 * has these already. Other taints stay.
 */
export function mirroredTaints(node: Node, now: string): Taint[] | undefined {
  const wanted = new Set<string>();
  for (const { type, status } of node.status?.conditions ?? []) {
    const key = TAINT_OF[type]?.[status];
    if (key !== undefined) wanted.add(key);
  }
  if (node.spec?.unschedulable) wanted.add(UNSCHEDULABLE);
  const isOwn = ({ key, effect }: Taint): boolean => effect === 'NoSchedule' && OWN_NO_SCHEDULE.has(key);
  const taints = taintsOf(node);
  const present = new Set(taints.filter(isOwn).map(({ key }) => key));
  const missing = [...wanted].filter((key) => !present.has(key));
  if (missing.length === 0 && wanted.size === present.size) return undefined;
  return [
    ...taints.filter((taint) => !isOwn(taint) || wanted.has(taint.key)),
    ...missing.map((key) => ({ key, effect: 'NoSchedule', timeAdded: now })),
  ];
}

/**
 * All taints of the node, with `key` as the only NoExecute taint for a lost node, or with none of these. A taint that
 * replaces the other one keeps its time, because pods have tolerated it since then.
 */
export function withLostTaint(node: Node, key: string | undefined, now: string): Taint[] {
  const taints = taintsOf(node);
  const isOwn = (taint: Taint): boolean => taint.effect === 'NoExecute' && isLost(taint);
  const others = taints.filter((taint) => !isOwn(taint));
  if (key === undefined) return others;
  const own = taints.filter(isOwn);
  const { timeAdded = now } = own.find((taint) => taint.key === key) ?? own[0] ?? {};
  return [...others, { key, effect: 'NoExecute', timeAdded }];
}

/** Whole seconds, as Kubernetes writes times. */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
