/**
 * The conditions of pods, ReplicaSets and Deployments. They are older than `metav1.Condition`: without a generation,
 * and with hardly any required fields. For a custom kind use the SDK's `Condition` and `setStatusCondition`; these
 * conditions do not follow its rules for times.
 */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  /** RFC 3339. */
  lastTransitionTime?: string | null;
}
