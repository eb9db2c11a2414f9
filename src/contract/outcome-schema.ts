import { z } from 'zod';
import { isResourceVersion } from '../core/index.ts';
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
      resourceVersion: z.string().refine(isResourceVersion, 'must be a resourceVersion').exactOptional(),
      deleted: z.literal(true).exactOptional(),
    }),
  )
  .exactOptional();

const seconds = z
  .number()
  .min(0)
  .max(365 * 86_400)
  .exactOptional();

/** Decodes a function's answer on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const outcomeSchema: z.ZodType<OutcomeBody> = z.object({
  version: z.literal(CONTRACT_VERSION),
  results: z.array(
    z.discriminatedUnion('status', [
      z.object({ status: z.literal('done'), requeueAfterSeconds: seconds, writes }),
      z.object({ status: z.literal('error'), message: z.string(), retryAfterSeconds: seconds, writes }),
      z.object({ status: z.literal('terminal'), message: z.string(), writes }),
    ]),
  ),
});
