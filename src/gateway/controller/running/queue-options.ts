import type { Description, QueueDescription } from '../../../contract/index.ts';
import type { Debounce, QueueOptions } from '../workqueue/work-queue.ts';

/** The queue options that a function's description asks for. */
export function queueOptions({ concurrency, timeoutSeconds, maxBatch = 1, queue = {} }: Description): QueueOptions {
  const { maxAttempts, rateLimit, debounce } = queue;
  return {
    concurrency,
    timeoutMs: timeoutSeconds * 1000,
    // Each key of a batch counts towards the concurrency.
    maxBatch: Math.min(maxBatch, concurrency),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
    ...(debounce === undefined ? {} : { debounce: debounceOf(debounce) }),
  };
}

function debounceOf({ seconds, maxSeconds, leading }: NonNullable<QueueDescription['debounce']>): Debounce {
  const times = { windowMs: seconds * 1000, maxMs: maxSeconds * 1000 };
  return leading === undefined ? times : { ...times, leading };
}
