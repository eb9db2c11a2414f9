/** `metav1.Condition`: the state of one aspect of an object: true, false or unknown. At most one of each type. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  /**
   * `metadata.generation` of the object that was examined. If it is older than the object's, the condition is out of
   * date.
   * @format int64
   */
  observedGeneration?: number;
  /**
   * When `status` last changed. RFC 3339, to the second.
   * @format date-time
   */
  lastTransitionTime: string;
  /** One word in CamelCase, for machines. */
  reason: string;
  message: string;
}

/** The input of `setStatusCondition`, which fills in the message and the time. */
export type NewCondition = Omit<Condition, 'lastTransitionTime' | 'message'> & {
  /** Default: empty. */
  readonly message?: string;
  /** Default: now, when the status changes. */
  readonly lastTransitionTime?: string;
};

type Conditions = readonly Condition[] | undefined;

/**
 * Returns the conditions with one added or updated, as apimachinery's `meta.SetStatusCondition` does:
 * `lastTransitionTime` changes only with the status. Returns the same array when nothing changes, so that the caller
 * knows whether to write:
 *
 * ```ts
 * const conditions = setStatusCondition(site.status?.conditions, { type: 'Ready', status: 'True', reason: 'Deployed', observedGeneration });
 * if (conditions !== site.status?.conditions) await api.replace(Site, { ...site, status: { ...site.status, conditions } }, 'status');
 * ```
 *
 * @param nowMs the time. Default: the machine's.
 */
export function setStatusCondition(
  conditions: Conditions,
  { lastTransitionTime, message = '', ...condition }: NewCondition,
  nowMs: number = Date.now(),
): Condition[] {
  const old = findStatusCondition(conditions, condition.type);
  const kept = old?.status === condition.status ? old.lastTransitionTime : undefined;
  // A built-in kind's times have no fractions: with a fraction, the condition read back would differ from the written
  // one.
  const now = `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
  // `observedGeneration` is replaced or removed on each call; fields that other writers have added are kept.
  const { observedGeneration: _, ...rest } = old ?? {};
  const next: Condition = { ...rest, ...condition, message, lastTransitionTime: kept ?? lastTransitionTime ?? now };
  if (conditions === undefined || old === undefined) return [...(conditions ?? []), next];
  const isSame = (['status', 'reason', 'message', 'observedGeneration'] as const).every(
    (name) => old[name] === next[name],
  );
  // The caller passed in this very array, so returning it as writable gives away nothing new.
  return isSame ? (conditions as Condition[]) : conditions.map((each) => (each === old ? next : each));
}

/** The conditions without those of a type; the very same array when there is none. */
export function removeStatusCondition(conditions: Conditions, type: string): Condition[] {
  if (conditions && !findStatusCondition(conditions, type)) return conditions as Condition[];
  return (conditions ?? []).filter((condition) => condition.type !== type);
}

/** The condition of a type. Undefined when there is none. */
export function findStatusCondition(conditions: Conditions, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether there is a condition of a type, and its status is `True`. */
export function isStatusConditionTrue(conditions: Conditions, type: string): boolean {
  return findStatusCondition(conditions, type)?.status === 'True';
}

/** Whether there is a condition of a type, and its status is `False`. Not the opposite of `isStatusConditionTrue`. */
export function isStatusConditionFalse(conditions: Conditions, type: string): boolean {
  return findStatusCondition(conditions, type)?.status === 'False';
}
