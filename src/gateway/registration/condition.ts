/** As `metav1.Condition`. */
export interface FunctionCondition {
  readonly type: ConditionType;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
  readonly lastTransitionTime: string;
}

/**
 * - `Ready`: its keys are run. Sums up the others.
 * - `Authorized`: its ServiceAccount may read what it asks for.
 * - `Synced`: all of that is in the cache.
 * - `EventsHandled`: its predicates and maps have heard of each event of its kinds.
 * - `Reachable`: its function answers.
 * - `Paused`: its keys wait, by `spec.paused` or by `levelhook queue pause`.
 */
export type ConditionType = 'Ready' | 'Authorized' | 'Synced' | 'EventsHandled' | 'Reachable' | 'Paused';
