import type { Deployment } from './types.ts';

/** How far a rolling update may depart from the desired number of pods. */
export interface Limits {
  /** The most pods above it. */
  readonly maxSurge: number;
  /** The most of its pods that may be unavailable. */
  readonly maxUnavailable: number;
}

/** In pods: the surge is rounded up, the unavailable pods are rounded down. With Recreate both are 0. */
export function limitsOf({ spec: { strategy, replicas } }: Deployment): Limits {
  if (strategy.type === 'Recreate') return { maxSurge: 0, maxUnavailable: 0 };
  const { maxSurge = 0, maxUnavailable = 0 } = strategy.rollingUpdate ?? {};
  const surge = Math.ceil(podsOf(maxSurge, replicas));
  const unavailable = Math.floor(podsOf(maxUnavailable, replicas));
  // If both are 0, no pod could ever be replaced. Allow an unavailable pod, since a quota may refuse a surge.
  const atLeast = surge === 0 && unavailable === 0 ? 1 : unavailable;
  return { maxSurge: surge, maxUnavailable: Math.min(atLeast, replicas) };
}

/** `2` or `"25%"`, not rounded. */
function podsOf(value: number | string, replicas: number): number {
  return typeof value === 'number' ? value : (Number.parseInt(value, 10) * replicas) / 100;
}
