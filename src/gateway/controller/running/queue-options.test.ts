import { describe, expect, it } from 'vitest';
import { descriptionSchema } from '../../../contract/description-schema.ts';
import { queueOptions } from './queue-options.ts';

const least = { version: 'v1', name: 'web', for: { apiVersion: 'v1', kind: 'Pod' } };

describe('the queue of a function', () => {
  it('gives one key at a time to a function that does not say that it takes more', () => {
    expect(queueOptions(descriptionSchema.parse(least))).toEqual({ concurrency: 1, timeoutMs: 15_000, maxBatch: 1 });
  });

  it('is as the function says', () => {
    const queue = { maxAttempts: 3, debounce: { seconds: 0.5, maxSeconds: 2 }, rateLimit: { perSecond: 1, burst: 2 } };
    const said = { ...least, concurrency: 20, timeoutSeconds: 5, maxBatch: 10, queue };
    expect(queueOptions(descriptionSchema.parse(said))).toEqual({
      concurrency: 20,
      timeoutMs: 5000,
      maxBatch: 10,
      maxAttempts: 3,
      debounce: { windowMs: 500, maxMs: 2000 },
      rateLimit: { perSecond: 1, burst: 2 },
    });
  });
});
