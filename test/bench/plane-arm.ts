import type { WorkloadPlane } from '../harness/workload-plane.ts';

/** Whose controllers run: Kubernetes' own, or gateway and functions in their place. */
export type ArmName = 'kube-controller-manager' | 'levelhook';

/** Requests are counted after this time without one. */
const QUIET_MS = 2000;

/**
 * The processes of an arm. kube-controller-manager is `built-in` in its own arm, and `other` in levelhook's, where it
 * runs the controllers that no function replaces.
 */
export function pidsOf(name: ArmName, { plane, redis, gateway, functions }: WorkloadPlane): Record<string, number> {
  const controllerManager = plane.pid('kube-controller-manager') ?? 0;
  if (name !== 'levelhook') return { 'built-in': controllerManager };
  const served = [...functions].map(([each, { process }]) => [each, process.pid] as const);
  return {
    other: controllerManager,
    gateway: gateway.process.pid,
    redis: redis.pid ?? 0,
    ...Object.fromEntries(served),
  };
}

/** A value of each process, by its name. */
export function valuesOf(pids: Readonly<Record<string, number>>, of: (pid: number) => number): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, of(pid)]));
}

/** How much each value has grown. */
export function growthOf(
  after: Readonly<Record<string, number>>,
  before: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]));
}

/** Waits until a count stands still. */
export async function untilQuiet(count: () => Promise<number>): Promise<void> {
  for (let last = -1, now = await count(); now !== last; now = await count()) {
    last = now;
    await new Promise((wake) => setTimeout(wake, QUIET_MS));
  }
}
