/**
 * The conditions of a ReconcileFunction:
 * - `Ready`: its keys are run. Sums up the others.
 * - `Authorized`: its ServiceAccount may read everything that it asks for.
 * - `Synced`: the cache holds all of that.
 * - `EventsHandled`: its predicates and maps have handled each event of its kinds.
 * - `Reachable`: its function answers.
 * - `Paused`: its keys wait, by `spec.paused` or by `levelhook pause`.
 */
export type ConditionType = 'Ready' | 'Authorized' | 'Synced' | 'EventsHandled' | 'Reachable' | 'Paused';
