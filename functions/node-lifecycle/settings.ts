/** The flags of kube-controller-manager that its node controller reads, under their names. */
export interface NodeSettings {
  /** `--node-monitor-grace-period`: how long a node may send no heartbeat. Default 50. */
  readonly monitorGraceSeconds: number;
  /** `--node-startup-grace-period`: the same for a node that has never reported a status. Default 60. */
  readonly startupGraceSeconds: number;
  /** `--node-eviction-rate`: nodes of a zone that are tainted with NoExecute per second. Default 0.1. */
  readonly evictionRate: number;
  /** `--secondary-node-eviction-rate`: the same in a large zone that is partially disrupted. Default 0.01. */
  readonly secondaryEvictionRate: number;
  /** `--unhealthy-zone-threshold`: the share of not ready nodes that makes a zone partially disrupted. Default 0.55. */
  readonly unhealthyZoneThreshold: number;
  /** `--large-cluster-size-threshold`: a zone with more nodes is large. Default 50. */
  readonly largeZoneNodes: number;
}

export const DEFAULT_SETTINGS: NodeSettings = {
  monitorGraceSeconds: 50,
  startupGraceSeconds: 60,
  evictionRate: 0.1,
  secondaryEvictionRate: 0.01,
  unhealthyZoneThreshold: 0.55,
  largeZoneNodes: 50,
};

const VARIABLES: Readonly<Record<string, keyof NodeSettings>> = {
  NODE_MONITOR_GRACE_SECONDS: 'monitorGraceSeconds',
  NODE_STARTUP_GRACE_SECONDS: 'startupGraceSeconds',
  NODE_EVICTION_RATE: 'evictionRate',
  NODE_SECONDARY_EVICTION_RATE: 'secondaryEvictionRate',
  NODE_UNHEALTHY_ZONE_THRESHOLD: 'unhealthyZoneThreshold',
  NODE_LARGE_ZONE_NODES: 'largeZoneNodes',
};

/** @throws TypeError for a value that is no number from 0 on. */
export function settingsOf(variables: Readonly<Record<string, string | undefined>>): NodeSettings {
  const settings: Record<keyof NodeSettings, number> = { ...DEFAULT_SETTINGS };
  for (const [variable, setting] of Object.entries(VARIABLES)) {
    const text = variables[variable];
    if (!text) continue;
    const value = Number(text);
    if (!Number.isFinite(value) || value < 0) throw new TypeError(`${variable} must be a number, not "${text}"`);
    settings[setting] = value;
  }
  return settings;
}
