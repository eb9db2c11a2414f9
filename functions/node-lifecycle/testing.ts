import type { Node, NodeCondition, Pod, Taint } from 'levelhook/function/kinds';

// Objects for the tests of the nodes' controllers.

export const HEARTBEAT_TIME = '2026-01-01T00:00:00Z';

/** A node with the four conditions of a kubelet that reports ready, not ready, or nothing. */
export function node(
  name: string,
  {
    ready = 'True',
    taints = [],
    ...parts
  }: {
    ready?: string | null;
    taints?: Taint[];
    labels?: Record<string, string>;
    since?: string;
    reason?: string;
    uid?: string;
  } = {},
): Node {
  const condition = (type: string, status: string): NodeCondition => ({
    type,
    status,
    lastHeartbeatTime: HEARTBEAT_TIME,
    lastTransitionTime: parts.since ?? HEARTBEAT_TIME,
    ...(parts.reason ? { reason: parts.reason } : {}),
  });
  const healthy = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => condition(type, 'False'));
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      uid: parts.uid ?? `${name}-uid`,
      resourceVersion: '1',
      creationTimestamp: HEARTBEAT_TIME,
      ...(parts.labels ? { labels: parts.labels } : {}),
    },
    spec: taints.length > 0 ? { taints } : {},
    status: ready === null ? {} : { conditions: [...healthy, condition('Ready', ready)] },
  };
}

export function podOn(nodeName: string, name: string, parts: { spec?: object; status?: object } = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'test', name, uid: `${name}-uid`, resourceVersion: '1', creationTimestamp: HEARTBEAT_TIME },
    spec: { nodeName, containers: [], ...parts.spec },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }], ...parts.status },
  };
}

export function lost(key: string, timeAdded?: string): Taint {
  return { key: `node.kubernetes.io/${key}`, effect: 'NoExecute', ...(timeAdded ? { timeAdded } : {}) };
}
