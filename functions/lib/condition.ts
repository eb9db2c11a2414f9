/**
 * As pods, ReplicaSets and Deployments have them, which are older than `metav1.Condition`: without a generation, and
 * with hardly anything required. A custom kind takes the SDK's, and `setStatusCondition`, whose rules for the times
 * these do not follow.
 */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  /** RFC 3339. */
  lastTransitionTime?: string | null;
}
