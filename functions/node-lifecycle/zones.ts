import type { Node } from 'levelhook/function/kinds';
import type { NodeSettings } from './settings.ts';
import { conditionOf, isLost, lostTaintKey, readyStatus, taintsOf } from './taints.ts';

export type ZoneState = 'normal' | 'partial-disruption' | 'full-disruption';

export interface TaintChange {
  readonly node: Node;
  readonly key: string | undefined;
}

/** The changes to the nodes now, and the time of the next plan. */
export interface ZonePlan {
  /** The desired NoExecute taint of a node: a key, or undefined for none. Nodes without a change are absent. */
  readonly taints: readonly TaintChange[];
  /** By zone, the next nodes in order: one replaces a node whose taint is refused. */
  readonly spares: ReadonlyMap<string, readonly TaintChange[]>;
  /** Milliseconds until the next node may be tainted. Undefined when none waits for that. */
  readonly nextMs?: number;
}

/** This number of refusals in one run does not delay the other nodes of their zone. */
const MAX_SPARES = 10;
/** Nodes with this label do not count for the state of a zone. */
const EXCLUDED = 'node.kubernetes.io/exclude-disruption';

/**
 * Plans the NoExecute taints of nodes. A ready node loses the taint at once, and a tainted node gets the taint for its
 * state. The others wait in the order in which they were lost: in each zone one at a time, at the rate of the zone's
 * state. While no zone has a ready node there are no such taints at all, because the fault is probably not in the
 * nodes.
 */
export function planZones(nodes: readonly Node[], settings: NodeSettings, nowMs: number): ZonePlan {
  const byZone = Map.groupBy(nodes, zoneOf);
  const zones = [...byZone.values()];
  const states = zones.map((zone) => stateOf(zone, settings));
  const counted = states.filter((state) => state !== undefined);
  if (counted.length > 0 && counted.every((state) => state === 'full-disruption')) {
    const taints = nodes.filter((node) => keysNow(node).length > 0).map((node) => ({ node, key: undefined }));
    return { taints, spares: new Map() };
  }
  const plans = zones.map((zone, at) => planZone(zone, rateOf(zone, states[at], settings), nowMs));
  const waits = plans.flatMap(({ nextMs }) => nextMs ?? []);
  return {
    taints: plans.flatMap(({ taints }) => taints),
    spares: new Map([...byZone.keys()].map((zone, at) => [zone, plans[at]?.spares ?? []])),
    ...(waits.length > 0 ? { nextMs: Math.min(...waits) } : {}),
  };
}

/** Region and zone of a node, as in component-helpers (`GetZoneKey`): the old labels take precedence. */
export function zoneOf({ metadata: { labels = {} } }: Node): string {
  const zone = labels['failure-domain.beta.kubernetes.io/zone'] ?? labels['topology.kubernetes.io/zone'] ?? '';
  const region = labels['failure-domain.beta.kubernetes.io/region'] ?? labels['topology.kubernetes.io/region'] ?? '';
  return `${region}\0${zone}`;
}

/** Undefined for a zone without a node that counts. */
export function stateOf(zone: readonly Node[], { unhealthyZoneThreshold }: NodeSettings): ZoneState | undefined {
  const counted = countedOf(zone);
  if (counted.length === 0) return undefined;
  const lost = counted.filter((node) => readyStatus(node) !== 'True').length;
  if (lost === counted.length) return 'full-disruption';
  return lost > 2 && lost / counted.length >= unhealthyZoneThreshold ? 'partial-disruption' : 'normal';
}

function countedOf(zone: readonly Node[]): readonly Node[] {
  return zone.filter(({ metadata: { labels = {} } }) => !(EXCLUDED in labels));
}

/** Nodes per second. A zone that is lost while others are not is evicted at the normal rate. */
function rateOf(zone: readonly Node[], state: ZoneState | undefined, settings: NodeSettings): number {
  if (state !== 'partial-disruption') return settings.evictionRate;
  return countedOf(zone).length > settings.largeZoneNodes ? settings.secondaryEvictionRate : 0;
}

/** Whether the node has no such taint yet, so that the change uses a turn of its zone. */
export function takesTurn({ node, key }: TaintChange): boolean {
  return key !== undefined && keysNow(node).length === 0;
}

function planZone(
  zone: readonly Node[],
  rate: number,
  nowMs: number,
): { taints: TaintChange[]; spares: TaintChange[]; nextMs?: number } {
  const taints: TaintChange[] = [];
  const waiting: Node[] = [];
  for (const node of zone) {
    const [now, wanted] = [keysNow(node), lostTaintKey(node)];
    const isRight = now.every((key) => key === wanted) && (now.length > 0 || wanted === undefined);
    // A node that has never reported its readiness waits for its conditions.
    if (isRight || (wanted === undefined && readyStatus(node) !== 'True')) continue;
    if (now.length === 0) waiting.push(node);
    else taints.push({ node, key: wanted });
  }
  if (waiting.length === 0 || rate === 0) return { taints, spares: [] };
  const { count, nextMs } = tokensOf(zone, rate, nowMs);
  const turns = waiting.toSorted(byLoss).map((node) => ({ node, key: lostTaintKey(node) }));
  const spares = turns.splice(Math.max(0, count));
  taints.push(...turns);
  return { taints, spares: spares.slice(0, MAX_SPARES), ...(spares.length > 0 ? { nextMs } : {}) };
}

/**
 * How many nodes may be tainted now, and when the next one may be: one every `1/rate` seconds. The taints of a zone
 * show when the last ones were set, to the second. So at more than one a second, the rate applies within each second,
 * and a late run catches up within the same second.
 */
function tokensOf(zone: readonly Node[], rate: number, nowMs: number): { count: number; nextMs: number } {
  const times = zone.flatMap((node) => {
    const taint = taintsOf(node).find((each) => isLost(each) && each.effect === 'NoExecute');
    return taint?.timeAdded ? [Date.parse(taint.timeAdded)] : [];
  });
  if (rate <= 1) {
    const dueMs = Math.max(-Infinity, ...times) + 1000 / rate;
    return dueMs > nowMs ? { count: 0, nextMs: dueMs - nowMs } : { count: 1, nextMs: 1000 / rate };
  }
  const passedMs = nowMs % 1000;
  const used = times.filter((time) => time >= nowMs - passedMs).length;
  const due = Math.floor((passedMs * rate) / 1000) + 1;
  // The time of the next node: in this second, or at the start of the next.
  return { count: due - used, nextMs: Math.min(1000, (Math.max(due, used) * 1000) / rate) - passedMs };
}

/** The keys of its NoExecute taints for a lost node. This controller sets one; a person may have set the other. */
function keysNow(node: Node): string[] {
  return taintsOf(node)
    .filter((taint) => isLost(taint) && taint.effect === 'NoExecute')
    .map(({ key }) => key);
}

function byLoss(a: Node, b: Node): number {
  const since = (node: Node): number => Date.parse(conditionOf(node, 'Ready')?.lastTransitionTime ?? '') || 0;
  return since(a) - since(b) || (a.metadata.name < b.metadata.name ? -1 : 1);
}
