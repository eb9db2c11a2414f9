import { z } from 'zod';
import { CONTRACT_VERSION } from './trigger.ts';
import type { IndexSpec } from './cache-layout.ts';
import { MAX_CALLBACK_SECONDS } from './outcome-schema.ts';
import type { Description } from './description.ts';

/** Their results share one answer of 1 MiB, and one deadline. */
export const MAX_BATCH = 100;

const groupVersionKind = z.object({ apiVersion: z.string().min(1), kind: z.string().min(1) });

const indexSpec: z.ZodType<IndexSpec> = z.templateLiteral(
  [z.enum(['field', 'label', 'annotation']), ':', z.string().regex(/[^\s=]+/)],
  'must be field:, label: or annotation: and a name',
);

const watchMap = z.discriminatedUnion('by', [
  z.object({ by: z.literal('index'), index: indexSpec }),
  z.object({ by: z.literal('selector'), path: z.string().min(1), orphansOnly: z.boolean().exactOptional() }),
]);

const queue = z.object({
  maxAttempts: z.int().min(1).max(1000).exactOptional(),
  rateLimit: z
    .object({ perSecond: z.number().min(0.001).max(100_000), burst: z.int().min(1).max(100_000) })
    .exactOptional(),
  debounce: z
    .object({ seconds: z.number().min(0.001).max(3600), maxSeconds: z.number().min(0.001).max(86_400) })
    .refine(({ seconds, maxSeconds }) => maxSeconds >= seconds, 'maxSeconds must not be less than seconds')
    .exactOptional(),
});

/** Decodes a function's description on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const descriptionSchema: z.ZodType<Description> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    name: z
      .string()
      .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a DNS label')
      .describe('A DNS label: names the queue, the label of metrics and the field of the log.'),
    for: groupVersionKind.describe('The kind whose keys are reconciled.'),
    owns: z
      .array(groupVersionKind)
      .default([])
      .describe('Kinds whose events queue their controller owner, when that is of kind `for`.'),
    watches: z
      .array(groupVersionKind.extend({ map: watchMap }))
      .default([])
      .describe('Kinds whose events queue the objects of kind `for` that refer to them.'),
    reads: z.array(groupVersionKind).default([]).describe('Kinds that are cached to be read, and queue nothing.'),
    indexes: z
      .array(groupVersionKind.extend({ index: indexSpec }))
      .default([])
      .describe('Indexes beside those by namespace and controller, for lists.'),
    concurrency: z.int().min(1).max(1000).default(1).describe('Keys at a time, over all gateways.'),
    timeoutSeconds: z.number().min(1).max(900).default(15).describe('The time a run may take.'),
    maxBatch: z
      .int()
      .min(1)
      .max(MAX_BATCH)
      .exactOptional()
      .describe('Requests in one trigger, at most; each counts towards `concurrency`. One when absent.'),
    callbackSeconds: z
      .number()
      .min(1)
      .max(MAX_CALLBACK_SECONDS)
      .exactOptional()
      .describe(
        'A run may be answered with 202 and go on, for this long at most without a word. Triggers name a callback then. ' +
          'After Redis has lost data the keys wait for as long.',
      ),
    queue: queue.exactOptional().describe('Limits of the queue; none when absent.'),
  })
  .describe('What a function says of its controller, in answer to a signed GET.');
