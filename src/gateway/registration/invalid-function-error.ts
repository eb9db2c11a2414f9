import type { ConditionType } from './condition-type.ts';

/**
 * Why a ReconcileFunction cannot run, as its condition says it: the reason in one word, the message naming field and
 * remedy.
 */
export class InvalidFunctionError extends Error {
  override readonly name = 'InvalidFunctionError';
  readonly condition: ConditionType;
  readonly reason: string;

  constructor(condition: ConditionType, reason: string, message: string) {
    super(message);
    this.condition = condition;
    this.reason = reason;
  }
}
