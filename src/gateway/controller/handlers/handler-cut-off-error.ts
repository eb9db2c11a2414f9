import { HandlerError } from '../../informer/cache/change.ts';

/**
 * A handler has used up its controller's processor time. The keys that the change wakes are unknown, so the controller
 * has missed the change. The message shows nothing of the object.
 */
export class HandlerCutOffError extends HandlerError {
  override readonly name = 'HandlerCutOffError';
  /** Where the handler stands in the description: `watches.0.map.expression`. */
  readonly field: string;

  constructor(field: string, message: string) {
    super(`${field} ${message}`);
    this.field = field;
  }
}
