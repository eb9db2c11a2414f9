/** The apiserver's answer to a request that it refuses. */
export interface FakeApiFailure {
  readonly code: number;
  /** Default: Kubernetes' reason for the code. */
  readonly reason?: string;
  readonly message?: string;
  readonly causes?: readonly { readonly reason: string; readonly message?: string; readonly field?: string }[];
  /** The header `Retry-After`. Default: none. */
  readonly retryAfterSeconds?: number;
}

/** Thrown within the memory apiserver, which answers with its `failure`. */
export class FakeApiError extends Error {
  override readonly name = 'FakeApiError';
  readonly failure: FakeApiFailure;

  constructor(code: number, message: string, more: Omit<FakeApiFailure, 'code' | 'message'> = {}) {
    super(message);
    this.failure = { code, message, ...more };
  }
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Expired',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** The answer as the apiserver writes it: a `Status`. */
export function answerOf(failure: FakeApiFailure): { status: number; body: string; retryAfter: string | null } {
  const { code, reason = REASONS[code] ?? '', causes, retryAfterSeconds } = failure;
  const message = failure.message ?? `refused by the test with ${code} ${reason}`;
  const details = {
    ...(causes ? { causes } : {}),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
  return {
    status: code,
    body: JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message, details }),
    retryAfter: retryAfterSeconds === undefined ? null : String(retryAfterSeconds),
  };
}
