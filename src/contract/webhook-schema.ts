import { z } from 'zod';
import { MAX_DNS_LABEL } from '../core/names.ts';
import { dns1035Label, dnsLabel, namespace } from './name-schema.ts';
import { MAX_CEL_LENGTH } from './source.ts';
import { groupVersionKind, labelSelector } from './source-schema.ts';
import { CONTRACT_VERSION } from './trigger.ts';
import { cacheLocation } from './trigger-schema.ts';
import { STALE_CACHE_CHOICES } from './webhook.ts';

/** The apiserver takes 64 for each webhook (pkg/apis/admissionregistration/validation/validation.go). */
const MAX_CONDITIONS = 64;
const MAX_NAMES = 64;
const MAX_SUBRESOURCES = 16;
const MAX_VERSIONS = 16;

const name = dnsLabel.describe('A DNS label, unique among the webhooks of the function.');

const matchCondition = z.strictObject({
  name: z.string().min(1).max(MAX_DNS_LABEL),
  expression: z.string().min(1).max(MAX_CEL_LENGTH),
});

const admission = groupVersionKind.extend({
  name,
  operations: z
    .array(z.enum(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']))
    .min(1)
    .max(4),
  subresources: z
    .array(dns1035Label)
    .min(1)
    .max(MAX_SUBRESOURCES)
    .exactOptional()
    .describe('Writes of these subresources and not of the object itself. Absent: of the object itself.'),
  namespaces: z.array(namespace).min(1).max(MAX_NAMES).exactOptional().describe('Absent: all.'),
  namespaceSelector: labelSelector.exactOptional(),
  objectSelector: labelSelector.exactOptional(),
  matchConditions: z.array(matchCondition).max(MAX_CONDITIONS).exactOptional(),
  failurePolicy: z.enum(['Fail', 'Ignore']).exactOptional().describe('Absent: Fail.'),
  matchPolicy: z.enum(['Exact', 'Equivalent']).exactOptional().describe('Absent: Equivalent.'),
  sideEffects: z.enum(['None', 'NoneOnDryRun']).exactOptional().describe('Absent: None.'),
  timeoutSeconds: z.int().min(1).max(30).exactOptional().describe('How long the apiserver waits. Absent: 10.'),
  cache: z
    .strictObject({
      maxAgeSeconds: z.number().min(5).max(3600),
      otherwise: z.enum(STALE_CACHE_CHOICES),
    })
    .exactOptional()
    .describe(
      'How old the cache may be, and what happens when it is older: `review` asks the function all the same, with ' +
        '`fail` there is no review and the failure policy decides, `allow` allows the write with a warning. Absent: ' +
        'any age.',
    ),
});

const validating = admission
  .extend({ type: z.literal('validating') })
  .describe('Allows or refuses writes of one kind, as `admissionregistration.k8s.io/v1` has it.');

const mutating = admission
  .extend({
    type: z.literal('mutating'),
    reinvocationPolicy: z.enum(['Never', 'IfNeeded']).exactOptional().describe('Absent: Never.'),
  })
  .describe('Changes what is written of one kind, as `admissionregistration.k8s.io/v1` has it.');

const conversion = groupVersionKind
  .extend({
    type: z.literal('conversion'),
    name,
    versions: z
      .array(dns1035Label)
      .min(2)
      .max(MAX_VERSIONS)
      .describe('The versions that it converts, without their group; `apiVersion` has the hub, which is one of them.'),
  })
  .describe('Converts the objects of a custom resource.');

/** Part of a description, and of a ReconcileFunction. */
export const webhook = z.discriminatedUnion('type', [validating, mutating, conversion]);

/** The published schema of a request for a review, as `triggerSchema` is a trigger's. */
export const reviewRequestSchema = z
  .object({
    version: z.literal(CONTRACT_VERSION).describe('Refuse any other with 400.'),
    controller: z.string().min(1).describe('As the function describes itself. Refuse any other with 400.'),
    webhook: z.string().min(1).describe('Its name in the description. Refuse an unknown one with 400.'),
    authenticated: z
      .boolean()
      .exactOptional()
      .describe(
        'Whether the gateway knows that an apiserver has sent the review. If false, anyone may have made it up: it comes ' +
          'without the cache, and the answer must tell nothing else. False for conversions. Absent: an older gateway.',
      ),
    deadline: z.string().meta({ format: 'date-time', description: 'RFC 3339. The caller waits no longer.' }),
    remainingSeconds: z
      .number()
      .describe('Seconds left when it was sent. The earlier of this and `deadline` applies: clocks differ.'),
    cache: cacheLocation,
    cacheAgeSeconds: z
      .record(z.string(), z.number())
      .describe(
        'By `apiVersion/Kind`: for how many seconds at most the cache may lack a change. Absent where unknown.',
      ),
    review: z
      .looseObject({
        apiVersion: z.string(),
        kind: z.string(),
        request: z.looseObject({ uid: z.string() }),
      })
      .describe('The AdmissionReview or ConversionReview of the apiserver, as it is.'),
  })
  .describe('The body of the signed POST by which the gateway asks a function for one review.');
