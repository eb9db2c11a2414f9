/**
 * The conditions of a ReconcileFunction:
 * - `Ready`: its keys are run. Sums up the others.
 * - `Authorized`: its ServiceAccount may read what it asks for.
 * - `Synced`: all of that is in the cache.
 * - `EventsHandled`: its predicates and maps have heard of each event of its kinds.
 * - `Reachable`: its function answers.
 * - `Paused`: its keys wait, by `spec.paused` or by `levelhook queue pause`.
 */
export type ConditionType = 'Ready' | 'Authorized' | 'Synced' | 'EventsHandled' | 'Reachable' | 'Paused';
