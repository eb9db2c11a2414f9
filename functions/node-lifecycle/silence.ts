import type { Context } from 'levelhook/function';
import { Lease, Node, type NodeCondition } from 'levelhook/function/kinds';
import type { NodeSettings } from './settings.ts';
import { conditionOf, timestamp } from './taints.ts';

export const HEARTBEAT = 'status.conditions[type=Ready].lastHeartbeatTime';
export const RENEWAL = 'spec.renewTime';
const LEASES = 'kube-node-lease';
/** The reason of a condition whose kubelet has stopped reporting. */
export const SILENT_REASON = 'NodeStatusUnknown';

/** Conditions that the kubelet reports; other components report NetworkUnavailable. */
const KUBELET_CONDITIONS = ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure'];

/** For how many seconds the node has sent no heartbeat, neither in its status nor through its Lease. */
export async function secondsSilent(node: Node, { cache }: Pick<Context, 'cache'>): Promise<number> {
  const { name } = node.metadata;
  const lease = { namespace: LEASES, name };
  const [ofStatus = 0, ofLease] = await Promise.all([
    cache.secondsUnchanged(Node, { name }, HEARTBEAT),
    cache.secondsUnchanged(Lease, lease, RENEWAL),
  ]);
  if (ofLease !== undefined) return Math.min(ofStatus, ofLease);
  // There is no Lease, or its unchanged time is not known yet.
  return (await cache.get(Lease, lease)) ? 0 : ofStatus;
}

export function graceSeconds(node: Node, settings: NodeSettings): number {
  return conditionOf(node, 'Ready') ? settings.monitorGraceSeconds : settings.startupGraceSeconds;
}

/**
 * The node from the apiserver. Undefined when it is gone, or has sent a heartbeat that the cache has not seen: then the
 * cache is behind, and not the node silent.
 */
export async function silentAtApiserver(node: Node, { api, cache }: Context): Promise<Node | undefined> {
  const key = { namespace: LEASES, name: node.metadata.name };
  const [live, liveLease, lease] = await Promise.all([
    api.get(Node, { name: node.metadata.name }),
    api.get(Lease, key),
    cache.get(Lease, key),
  ]);
  if (live?.metadata.uid !== node.metadata.uid) return undefined;
  const heartbeat = (of: Node): string | undefined => conditionOf(of, 'Ready')?.lastHeartbeatTime;
  if (heartbeat(live) !== heartbeat(node)) return undefined;
  return liveLease?.spec?.renewTime === lease?.spec?.renewTime ? live : undefined;
}

/** The node's conditions when the kubelet is silent. */
export function unknownConditions(node: Node, nowMs: number): NodeCondition[] {
  const now = timestamp(nowMs);
  const present = (node.status?.conditions ?? []).map((condition): NodeCondition => {
    if (!KUBELET_CONDITIONS.includes(condition.type) || condition.status === 'Unknown') return condition;
    const reason = SILENT_REASON;
    const message = 'Kubelet stopped posting node status.';
    return { ...condition, status: 'Unknown', reason, message, lastTransitionTime: now };
  });
  const missing = KUBELET_CONDITIONS.filter((type) => !conditionOf(node, type)).map((type): NodeCondition => {
    const { creationTimestamp } = node.metadata;
    return {
      type,
      status: 'Unknown',
      reason: 'NodeStatusNeverUpdated',
      message: 'Kubelet never posted node status.',
      ...(creationTimestamp ? { lastHeartbeatTime: creationTimestamp } : {}),
      lastTransitionTime: now,
    };
  });
  return [...present, ...missing];
}
