import { z } from 'zod';
import { namespace, objectName } from './name-schema.ts';
import { CONTRACT_VERSION } from './trigger.ts';

/** Bounded, since it is stored with the key and sent with its trigger. */
export const MAX_REASON_MESSAGE = 200;

const reason = z.object({
  // Text, not an enumeration: a later gateway may know more types, which a function must tolerate.
  type: z
    .string()
    .describe(
      'added, updated or deleted: an event of `object`. initial, resync: all keys are queued. requeue, retry: the ' +
        'last outcome asked for it. manual: a person or a program asked for it. Later gateways may send others.',
    ),
  object: z.string().exactOptional().describe('The object of the event: `apiVersion/Kind namespace/name`.'),
  resourceVersion: z.string().exactOptional().describe('The resourceVersion of that object at that event.'),
  message: z
    .string()
    .max(MAX_REASON_MESSAGE)
    .exactOptional()
    .describe('The message of the caller that asked for the run.'),
});

const request = z.object({
  namespace: namespace.exactOptional().describe('Absent for a cluster-scoped object.'),
  name: objectName,
  attempt: z
    .int()
    .min(1)
    .describe('1 for the first run since the key last succeeded, one more for each failure since.'),
  run: z.int().min(1).describe('The fencing number: grows with every run of this controller.'),
  reasons: z
    .array(reason)
    .describe('The reasons why the key runs, for people. A function must decide by the state of the objects.'),
});

const view = z.object({
  prefix: z.string().min(1).describe("The first part of the view's keys in Redis, for the Redis reader."),
  namespace: namespace.exactOptional().describe('The only namespace that the view holds; all when absent.'),
  position: z
    .int()
    .min(0)
    .exactOptional()
    .describe(
      "The view's position when the trigger was sent. A view with a lower one lacks writes that the run may depend on. " +
        'Absent in a review, and while the view has never been complete.',
    ),
});

/** Part of a review, too. */
export const cacheLocation = z
  .object({
    views: z.record(z.string(), z.array(view)).describe('By `apiVersion/Kind`, for the Redis reader.'),
    redisUser: z
      .string()
      .min(1)
      .exactOptional()
      .describe(
        'The Redis user that may read `views`. Its password is base64url (without padding) of HMAC-SHA256, under the ' +
          'bytes of the signing secret, over `levelhook:redis-user:v1`, a line feed and its name. Absent: there is none.',
      ),
    url: z
      .string()
      .min(1)
      .exactOptional()
      .describe('The cache API, to which `/apis/apps/v1/...` is appended. Https or loopback. Absent: there is none.'),
    now: z
      .int()
      .exactOptional()
      .describe("The gateways' time in milliseconds, for the Redis reader: see `observes` of the description."),
    token: z
      .string()
      .min(1)
      .exactOptional()
      .describe(
        "The bearer token for `url`: of the controller's kinds alone, valid until the runs of the trigger, or the review, are over.",
      ),
    encrypted: z
      .record(z.string(), z.union([z.literal('*'), z.array(namespace)]))
      .exactOptional()
      .describe(
        'Kinds that are encrypted in Redis and so are read through the cache API alone, by `apiVersion/Kind`: ' +
          '`*`, or the cached namespaces. They are not among `views`.',
      ),
  })
  .describe("How to read the gateway's cache.");

/**
 * The published schema of a trigger. The gateway builds triggers and functions check them with `decodeTrigger`, so this
 * schema decodes nothing at run time; tests compare it with both.
 */
export const triggerSchema = z
  .object({
    version: z.literal(CONTRACT_VERSION).describe('Refuse any other with 400.'),
    controller: z.string().min(1).describe('As the function describes itself. Refuse any other with 400.'),
    deadline: z.string().meta({ format: 'date-time', description: 'RFC 3339. Nothing may be written after it.' }),
    remainingSeconds: z
      .number()
      .describe('Seconds left when the trigger was sent. The earlier of this and `deadline` applies: clocks differ.'),
    cache: cacheLocation,
    callback: z
      .object({
        url: z.string().min(1).describe('Takes a signed POST with the body of `callback.schema.json`.'),
        token: z.string().describe('Opaque: sent back as it is.'),
        maxSeconds: z.number().describe('The longest `withinSeconds`.'),
      })
      .exactOptional()
      .describe(
        'Absent: the answer must not be 202. Only for a function that describes itself with `callbackSeconds`.',
      ),
    kubernetes: z
      .object({
        url: z
          .string()
          .min(1)
          .describe('Where to read live and to write: `/apis/apps/v1/...` is appended. Https or loopback.'),
        token: z.string().min(1).describe('The bearer token for `url`, valid until after the deadline.'),
        caBundle: z
          .string()
          .min(1)
          .exactOptional()
          .describe(
            'Certificate authorities of `url` beside those that the platform trusts: PEM, in base64. Absent: none.',
          ),
        recordsWrites: z
          .literal(true)
          .exactOptional()
          .describe(
            'The gateway records the writes, and the outcome need not name them. Each write needs the header ' +
              '`levelhook-run` with the number of its run. Absent: the outcome names the writes.',
          ),
      })
      .exactOptional()
      .describe('Absent: the function has credentials of its own. See credentials.md.'),
    requests: z.array(request).min(1).describe('One, or as many as the `maxBatch` of the description allows.'),
  })
  .describe('The body of the signed POST by which the gateway asks a function to reconcile.');
