import type { Deployment } from './types.ts';

/** How far a rolling update may go from the wanted number of pods. */
export interface Limits {
  /** The most pods beyond it. */
  readonly maxSurge: number;
  /** The most of it that may be unavailable. */
  readonly maxUnavailable: number;
}

/** In pods: percentages of the surge are rounded up, of what is unavailable down. With Recreate both are 0. */
export function limitsOf({ spec: { strategy, replicas } }: Deployment): Limits {
  if (strategy.type === 'Recreate') return { maxSurge: 0, maxUnavailable: 0 };
  const { maxSurge = 0, maxUnavailable = 0 } = strategy.rollingUpdate ?? {};
  const surge = Math.ceil(podsOf(maxSurge, replicas));
  const unavailable = Math.floor(podsOf(maxUnavailable, replicas));
  // With both rounded to nothing no pod could ever be replaced; and a surge may be what a quota refuses.
  const atLeast = surge === 0 && unavailable === 0 ? 1 : unavailable;
  return { maxSurge: surge, maxUnavailable: Math.min(atLeast, replicas) };
}

/** `2` or `"25%"`, not rounded. */
function podsOf(value: number | string, replicas: number): number {
  return typeof value === 'number' ? value : (Number.parseInt(value, 10) * replicas) / 100;
}
