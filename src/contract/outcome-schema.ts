import { z } from 'zod';
import { apiVersion, kind, namespace, objectName, uid } from './name-schema.ts';
import type { OutcomeBody, RequestResult } from './outcome.ts';
import { CONTRACT_VERSION } from './trigger.ts';

const writes = z
  .array(
    z.object({
      apiVersion,
      kind,
      namespace: namespace.exactOptional(),
      name: objectName,
      uid,
      // As `isResourceVersion` of core; a pattern, so that it appears in the published schema.
      resourceVersion: z
        .string()
        .regex(/^[1-9][0-9]*$/, 'must be a resourceVersion')
        .exactOptional()
        .describe("The written object's, as the apiserver answered. Absent for a delete."),
      deleted: z.literal(true).exactOptional().describe('Present when the write was a delete.'),
      gone: z
        .literal(true)
        .exactOptional()
        .describe(
          'Beside deleted, when the object no longer exists: the apiserver answered with a Status, or the write took away ' +
            'the last finalizer of an object that was being deleted.',
        ),
    }),
  )
  .exactOptional()
  .describe("Every write that the apiserver acknowledged: the key's next run starts only when the cache shows them.");

const seconds = z
  .number()
  .min(0)
  .max(365 * 86_400)
  .exactOptional();

const message = z
  .string()
  .describe("For the log and the key's history: one line, cut to 1024 characters. Never holds a secret.");

/** The longest time for which a run may go on without a word: a day. */
export const MAX_CALLBACK_SECONDS = 86_400;

export const resultSchema: z.ZodType<RequestResult> = z.discriminatedUnion('status', [
  z
    .object({
      status: z.literal('done'),
      requeueAfterSeconds: seconds.describe(
        'Run again after this time; 0 does not requeue. Replaces the time of an earlier run.',
      ),
      writes,
    })
    .describe('The run succeeded.'),
  z
    .object({
      status: z.literal('error'),
      message,
      retryAfterSeconds: seconds.describe('Time until the retry instead of the backoff; 0: the backoff.'),
      writes,
    })
    .describe('Try again, after a backoff.'),
  z
    .object({ status: z.literal('terminal'), message, writes })
    .describe('Trying again will not help: the key rests until something changes.'),
  z
    .object({ status: z.literal('unknown'), message })
    .describe(
      'The function cannot know which writes took effect: a write got no answer or a 5xx, or a run of a batch did not end. ' +
        'The key waits for its deadline.',
    ),
  z
    .object({
      status: z.literal('accepted'),
      withinSeconds: z.number().min(1).max(MAX_CALLBACK_SECONDS).describe("At most the callback's `maxSeconds`."),
    })
    .describe(
      "The run goes on, and its outcome comes to the trigger's callback within this time. In an answer of 202, and only " +
        'to a trigger that names a callback.',
    ),
]);

/** Decodes a function's answer on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const outcomeSchema: z.ZodType<OutcomeBody> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    results: z.array(resultSchema).describe('One for each request of the trigger, in their order.'),
  })
  .describe('The body of the 200 answer to a trigger; of the 202 answer when a result is `accepted`.');

const results = z.object({ version: z.literal(CONTRACT_VERSION), results: z.array(z.unknown()) });

/**
 * The results of an answer, each by itself: one that cannot be read says nothing about the others.
 * @throws TypeError when the answer is no list of results.
 */
export function decodeResults(value: unknown): readonly (RequestResult | TypeError)[] {
  return decoded(results, value).results.map((each, at) => {
    const parsed = resultSchema.safeParse(each);
    return parsed.success ? parsed.data : issueOf(parsed.error, ['results', at]);
  });
}

function decoded<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw issueOf(parsed.error);
  return parsed.data;
}

function issueOf(error: z.ZodError, at: readonly PropertyKey[] = []): TypeError {
  const [issue] = error.issues;
  return new TypeError(`${[...at, ...(issue?.path ?? [])].join('.')}: ${issue?.message}`);
}
