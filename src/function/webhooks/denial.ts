export interface DenialOptions {
  /** A reason of `metav1.StatusReason`. Default `Forbidden`, and `Invalid` with causes. */
  readonly reason?: string;
  /** The HTTP status of the answer to the client, 400 to 599. Default 403, and 422 with causes. */
  readonly code?: number;
  /** The wrong fields: `[{ field: 'spec.size', message: 'must not shrink' }]`. */
  readonly causes?: readonly DenialCause[];
}

export interface DenialCause {
  readonly field?: string;
  /** Default: the message of the denial. kubectl shows the causes instead of it. */
  readonly message?: string;
  /** A `metav1.CauseType`: `FieldValueInvalid`, `FieldValueRequired`. Default `FieldValueInvalid`. */
  readonly reason?: string;
}

/** The refusal of a write: `deny` makes it, and a webhook returns it. */
export class Denial {
  /** The `metav1.Status` of the answer. */
  readonly status: object;

  constructor(message: string, { causes, ...options }: DenialOptions = {}) {
    const { reason = causes ? 'Invalid' : 'Forbidden', code = causes ? 422 : 403 } = options;
    // With another code the apiserver would send 400, or the client would see a success.
    if (!(Number.isInteger(code) && code >= 400 && code <= 599)) {
      throw new TypeError(`the code of a denial is ${code}: it must lie between 400 and 599`);
    }
    const details = causes && { causes: causes.map((cause) => ({ reason: 'FieldValueInvalid', message, ...cause })) };
    this.status = { status: 'Failure', message, reason, code, ...(details ? { details } : {}) };
  }
}

/**
 * Refuses the write: `return deny('the name is taken')`. The client sees
 * `admission webhook "names.example.com" denied the request: the name is taken`.
 */
export function deny(message: string, options?: DenialOptions): Denial {
  return new Denial(message, options);
}
