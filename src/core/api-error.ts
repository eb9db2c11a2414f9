import { acrossCopies } from './across-copies.ts';

/** The part of a Kubernetes `Status` object that decides what to do next. */
export interface ApiStatus {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { reason?: string; message?: string }[];
  };
}

/** An answer of the apiserver other than 2xx, or an ERROR event of a watch. The message is the apiserver's own. */
export class ApiError extends Error {
  static {
    acrossCopies(this, 'ApiError');
  }

  override readonly name = 'ApiError';
  readonly code: number;
  readonly reason: string;
  /** From the Retry-After header or the Status; undefined when the apiserver named none. */
  readonly retryAfterMs: number | undefined;
  readonly status: ApiStatus;

  constructor(status: ApiStatus, retryAfterMs?: number) {
    super(status.message || `the apiserver answered ${status.code ?? 'an error'} without a message`);
    this.status = status;
    this.code = status.code ?? 0;
    this.reason = status.reason ?? '';
    const named = status.details?.retryAfterSeconds;
    this.retryAfterMs = retryAfterMs ?? (named === undefined ? undefined : named * 1000);
  }
}

/** Turns a "not found" answer into undefined. Other errors are thrown. */
export async function orUndefined<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return undefined;
    throw error;
  }
}

/** The version asked for is no longer in the watch cache: HTTP 410, or an ERROR event with that status. */
export function isExpired(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 410 || error.reason === 'Expired' || error.reason === 'Gone');
}

/**
 * The version asked for is newer than anything the apiserver has: it lags behind, or its data is older than ours.
 * As client-go's `isTooLargeResourceVersionError` (tools/cache/reflector.go), in its three forms.
 */
export function isTooLargeResourceVersion(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  if (error.status.details?.causes?.some((cause) => cause.reason === 'ResourceVersionTooLarge')) return true;
  if (error.code !== 504 && error.reason !== 'Timeout') return false;
  if (error.status.details?.causes?.some((cause) => cause.message === 'Too large resource version')) return true;
  return error.message.includes('Too large resource version');
}

/**
 * After a 5xx a write may have taken effect: the apiserver answers 504 at its `timeout` while etcd may still apply the
 * write, and 500 for etcd's own timeouts, and a proxy answers 502 if it lost the answer. Two answers are exceptions,
 * because they are given before etcd: an admission webhook could not be called, or the apiserver is not ready.
 */
export function isUncertain({ code, reason, message }: ApiError): boolean {
  if (code < 500 || reason === 'ServiceUnavailable') return false;
  return !(reason === 'InternalError' && message.includes('failed calling webhook'));
}

/**
 * The Status in an answer's body. A body that is no Status, such as a proxy's page, becomes the message of a new one.
 */
export function statusFrom(body: string, code: number): ApiStatus {
  try {
    const status = JSON.parse(body) as ApiStatus & { kind?: string };
    if (status.kind === 'Status') return { ...status, code: status.code ?? code };
  } catch {
    // Not JSON: a proxy's page.
  }
  return { code, message: `the apiserver answered ${code}: ${body.slice(0, 200).trim()}` };
}

/** A Retry-After header in both forms of RFC 9110, seconds or a date, as milliseconds from `nowMs`. */
export function parseRetryAfter(header: string | null | undefined, nowMs: number): number | undefined {
  if (header === null || header === undefined) return undefined;
  if (/^[0-9]+$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
