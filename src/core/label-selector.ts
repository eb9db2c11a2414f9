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

/** Whether labels match a selector, as apimachinery's `LabelSelectorAsSelector` does. */
export function matchesLabels(selector: LabelSelector, labels: Readonly<Record<string, string>> = {}): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => ownValue(labels, key) === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => matchesOperator(operator, values, ownValue(labels, key)))
  );
}
