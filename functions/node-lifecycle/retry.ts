import { RetryAfterError } from 'levelhook/function';

const MAX_SECONDS = 10;

/**
 * Retries a run as the gateway's backoff would, but after 10 s at the latest, and not later than the run is due anyway.
 * Otherwise one object whose write is always refused would delay the other objects of the same key.
 */
export function retrySoon(cause: Error, attempt: number, dueSeconds = MAX_SECONDS): RetryAfterError {
  return new RetryAfterError(cause.message, Math.min(0.005 * 2 ** attempt, dueSeconds, MAX_SECONDS), { cause });
}
