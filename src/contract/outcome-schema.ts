import { z } from 'zod';
import type { OutcomeBody } from './outcome.ts';
import { CONTRACT_VERSION } from './trigger.ts';

const writes = z
  .array(
    z.object({
      apiVersion: z.string(),
      kind: z.string(),
      namespace: z.string().exactOptional(),
      name: z.string(),
      uid: z.string(),
      // As `isResourceVersion` of core; a pattern, so that it appears in the published schema.
      resourceVersion: z
        .string()
        .regex(/^[1-9][0-9]*$/, 'must be a resourceVersion')
        .exactOptional()
        .describe("The written object's, as the apiserver answered. Absent for a delete."),
      deleted: z.literal(true).exactOptional().describe('Present when the write was a delete.'),
    }),
  )
  .exactOptional()
  .describe("Every write that the apiserver acknowledged: the key's next run starts only when the cache shows them.");

const seconds = z
  .number()
  .min(0)
  .max(365 * 86_400)
  .exactOptional();

const message = z.string().describe("For the log and the key's history. Never holds a secret.");

/** Decodes a function's answer on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const outcomeSchema: z.ZodType<OutcomeBody> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    results: z
      .array(
        z.discriminatedUnion('status', [
          z
            .object({
              status: z.literal('done'),
              requeueAfterSeconds: seconds.describe('Run again after this time. Replaces an earlier such wish.'),
              writes,
            })
            .describe('All is as it should be, or on its way there.'),
          z
            .object({
              status: z.literal('error'),
              message,
              retryAfterSeconds: seconds.describe("Instead of the backoff's time."),
              writes,
            })
            .describe('Try again, after a backoff.'),
          z
            .object({ status: z.literal('terminal'), message, writes })
            .describe('Trying again will not help: the key rests until something changes.'),
          z
            .object({ status: z.literal('unknown'), message })
            .describe(
              'The function cannot tell whether a write was done: no answer came, or a 5xx. The key waits for its deadline.',
            ),
        ]),
      )
      .describe('One for each request of the trigger, in their order.'),
  })
  .describe('The body of the 200 answer to a trigger.');
