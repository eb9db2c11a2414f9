import { z } from 'zod';
import { CONTRACT_VERSION } from './trigger.ts';
import { MAX_CALLBACK_SECONDS } from './outcome-schema.ts';
import type { Description } from './description.ts';
import { dnsLabel } from './name-schema.ts';
import { MAX_INDEXES, MAX_OBSERVED, MAX_SOURCES } from './source.ts';
import {
  groupVersionKind,
  indexSpec,
  observedField,
  owned,
  read,
  reconciled,
  watched,
  written,
} from './source-schema.ts';
import { webhook } from './webhook-schema.ts';
import { MAX_WEBHOOKS } from './webhook.ts';

/** Their results share one answer of 1 MiB, and one deadline. */
export const MAX_BATCH = 100;

const queue = z.object({
  maxAttempts: z.int().min(1).max(1000).exactOptional(),
  rateLimit: z
    .object({ perSecond: z.number().min(0.001).max(100_000), burst: z.int().min(1).max(100_000) })
    .exactOptional(),
  debounce: z
    .object({
      seconds: z.number().min(0.001).max(3600),
      maxSeconds: z.number().min(0.001).max(86_400),
      leading: z.boolean().exactOptional(),
    })
    .refine(({ seconds, maxSeconds }) => maxSeconds >= seconds, 'maxSeconds must not be less than seconds')
    .refine(({ maxSeconds, leading }) => !leading || maxSeconds <= 60, 'maxSeconds must not exceed 60 with leading')
    .exactOptional(),
});

/**
 * All fields of a description but its version and name; the custom resource of a controller has the same fields. Not
 * recursive, so that its JSON Schema can be written out in full.
 */
export const descriptionShape = {
  for: reconciled.describe(
    'The kind whose keys are reconciled: any event of such an object queues its own key. With `labelSelector` only objects that match, as if the kind were watched with it.',
  ),
  owns: z
    .array(owned)
    .max(MAX_SOURCES - 1)
    .default([])
    .describe('Kinds whose events queue their controller owner (`owner: any`: each owner) that is of kind `for`.'),
  watches: z
    .array(watched)
    .max(MAX_SOURCES - 1)
    .default([])
    .describe(
      'Kinds whose events queue the objects of kind `for` to which `map` leads, from the old object and the new.',
    ),
  reads: z
    .array(read)
    .max(MAX_SOURCES - 1)
    .default([])
    .describe('Kinds that the function reads from the cache and whose events queue no key.'),
  writes: z
    .array(written)
    .max(MAX_SOURCES)
    .exactOptional()
    .describe(
      'Kinds that the function writes, with the verbs of RBAC. The function sends no other write. Absent: not known, so that `levelhook manifest` grants none.',
    ),
  indexes: z
    .array(groupVersionKind.extend({ index: indexSpec }))
    .max(MAX_INDEXES)
    .default([])
    .describe('Indexes for lists, in addition to those by namespace and controller.'),
  relatedKinds: z
    .literal('any')
    .exactOptional()
    .describe(
      'Runs may name related objects of every kind that the cluster serves, and the gateway watches a kind as long as keys name it. Absent: of the kinds in `watches` with the map `related`.',
    ),
  observes: z
    .array(groupVersionKind.extend({ field: observedField }))
    .max(MAX_OBSERVED)
    .exactOptional()
    .describe(
      'Fields for whose values the cache keeps the time of the last change, of kinds that are named elsewhere in the description.',
    ),
  concurrency: z.int().min(1).max(1000).default(1).describe('The most keys that run at a time, over all gateways.'),
  timeoutSeconds: z.number().min(1).max(900).default(15).describe('The most seconds that a run may take.'),
  maxBatch: z
    .int()
    .min(1)
    .max(MAX_BATCH)
    .exactOptional()
    .describe('The most requests in one trigger, and no more than `concurrency`. Absent: one.'),
  callbackSeconds: z
    .number()
    .min(1)
    .max(MAX_CALLBACK_SECONDS)
    .exactOptional()
    .describe(
      'A run may be answered with 202 and go on, for at most this time without contact. Triggers then name a callback. ' +
        'After Redis has lost data the keys wait for this time.',
    ),
  queue: queue.exactOptional().describe('Limits of the queue. Absent: no limits.'),
  webhooks: z
    .array(webhook)
    .max(MAX_WEBHOOKS)
    .exactOptional()
    .describe('Reviews of writes and conversions that the function answers, each with a name of its own.'),
};

/** Decodes a function's description on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const descriptionSchema: z.ZodType<Description> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    name: dnsLabel.describe('A DNS label: names the queue, the label of metrics and the field of the log.'),
    ...descriptionShape,
  })
  .describe('The description of a controller by its function, the answer to a signed GET.');
