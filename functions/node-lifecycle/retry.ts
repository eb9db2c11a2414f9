import { RetryAfterError } from 'levelhook/function';

const MAX_SECONDS = 10;

/**
 * Retries a run as the gateway's backoff would, but after 10 s at the latest, and not later than the run is due anyway:
 * one object whose write is always refused must not hold up the others that the same key is about.
 */
export function retrySoon(cause: Error, attempt: number, dueSeconds = MAX_SECONDS): RetryAfterError {
  return new RetryAfterError(cause.message, Math.min(0.005 * 2 ** attempt, dueSeconds, MAX_SECONDS), { cause });
}
