import { ownValue } from './names.ts';

/** `metav1.LabelSelector`: every part must match. An empty selector matches everything. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

type Operator = NonNullable<LabelSelector['matchExpressions']>[number]['operator'];

/** One condition on the value of a label, undefined where the key is absent: `NotIn` matches then, too. */
export function matchesOperator(operator: Operator, values: readonly string[], value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

/**
 * Reads a label selector from a field of any kind: a LabelSelector, or a plain map of labels as in a Service. Returns
 * undefined if it selects nothing: if it is absent, null, or no selector, because the object's author chose the value.
 * `{}` selects everything, as in apimachinery's `LabelSelectorAsSelector` and in the `podSelector` of a NetworkPolicy.
 * A Service without labels in its selector selects nothing, and the apiserver omits its empty map.
 */
export function asLabelSelector(value: unknown): LabelSelector | undefined {
  if (!isRecord(value)) return undefined;
  if (isLabels(value)) return { matchLabels: value };
  return isLabelSelector(value) ? withoutNull(value) : undefined;
}

/** A field that is null is absent: custom resources may have such fields. */
function withoutNull({ matchLabels, matchExpressions }: LabelSelector): LabelSelector {
  const expressions = matchExpressions?.map(({ values, ...each }) => ({ ...each, ...(values ? { values } : {}) }));
  return { ...(matchLabels ? { matchLabels } : {}), ...(expressions ? { matchExpressions: expressions } : {}) };
}

function isLabelSelector(value: Record<string, unknown>): value is LabelSelector & Record<string, unknown> {
  const { matchLabels, matchExpressions, ...others } = value;
  const expressions = matchExpressions ?? [];
  if (Object.keys(others).length > 0 || !isLabels(matchLabels ?? {}) || !Array.isArray(expressions)) return false;
  return expressions.every((each: unknown) => {
    if (!isRecord(each)) return false;
    const { key, operator, values } = each;
    return typeof key === 'string' && mayHave(operator, values ?? []);
  });
}

/** Whether an operator may have these values: apimachinery refuses any other selector. */
function mayHave(operator: unknown, values: unknown): boolean {
  if (!Array.isArray(values)) return false;
  if (operator === 'In' || operator === 'NotIn') return values.length > 0;
  return (operator === 'Exists' || operator === 'DoesNotExist') && values.length === 0;
}

function isLabels(value: unknown): value is Record<string, string> {
  return isRecord(value) && Object.values(value).every((each) => typeof each === 'string');
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A loop, which makes no list of the wanted labels for each object. */
function hasAll(labels: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean {
  for (const key in wanted) if (ownValue(labels, key) !== wanted[key]) return false;
  return true;
}

/**
 * Whether labels match a selector, as apimachinery's `LabelSelectorAsSelector` does. `NotIn` without values, which it
 * refuses, matches nothing. Keys and values are not checked: `requirementsOf` does that.
 */
export function matchesLabels(selector: LabelSelector, labels: Readonly<Record<string, string>> = {}): boolean {
  // An object may have null in place of an absent field.
  const matchLabels: LabelSelector['matchLabels'] | null = selector.matchLabels;
  const matchExpressions: LabelSelector['matchExpressions'] | null = selector.matchExpressions;
  return (
    hasAll(labels, matchLabels ?? {}) &&
    (matchExpressions ?? []).every(({ key, operator, values }) => {
      const known = values ?? [];
      return mayHave(operator, known) && matchesOperator(operator, known, ownValue(labels, key));
    })
  );
}
