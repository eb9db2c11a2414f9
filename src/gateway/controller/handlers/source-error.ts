import { type LabelSelector, messageOf, requirementsOf, UserError } from '../../../core/index.ts';

/**
 * A mistake in sources or webhooks. `reason` names its kind, and the message begins with the field:
 * `watches.0.predicate.all.1.cel ...`.
 */
export class SourceError extends UserError {
  readonly reason:
    | 'PredicateTooLarge'
    | 'SelectorInvalid'
    | 'ExpressionInvalid'
    | 'KindHasNoNamespace'
    | 'KindNotNamed'
    | 'WebhookInvalid'
    | 'TooManySources'
    | 'TooManyExpressions'
    | 'SpecTooLarge';

  constructor(reason: SourceError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** @throws SourceError */
export function checkSelector(selector: LabelSelector, field: string): void {
  try {
    requirementsOf(selector);
  } catch (error) {
    throw new SourceError('SelectorInvalid', `${field} is not a label selector: ${messageOf(error)}.`);
  }
}
