import { z } from 'zod';
import { type LabelSelector, requirementsOf } from '../core/index.ts';
import { FIELD_PATH, LABEL_KEY, MAX_FIELD_PATH, MAX_LABEL_KEY, MAX_LABEL_VALUE } from '../core/names.ts';
import type { IndexSpec } from './cache-layout.ts';
import { OBSERVED_FIELD } from './observed.ts';
import { apiVersion, dnsLabel, fieldPath, kind, labelKey, namespace } from './name-schema.ts';
import { MAX_CEL_LENGTH, MAX_PREDICATE_DEPTH, MAX_PREDICATE_NODES, type Predicate, WRITE_VERBS } from './source.ts';

export const groupVersionKind = z.object({ apiVersion, kind });

const inner = (pattern: RegExp): string => pattern.source.slice(1, -1);

export const indexSpec = z
  .string()
  .max('field:'.length + MAX_FIELD_PATH)
  .regex(
    new RegExp(`^(labels|field:${inner(FIELD_PATH)}|(label|annotation):${inner(LABEL_KEY)})$`),
    'must be labels, or field:, label: or annotation: and a name',
  ) as unknown as z.ZodType<IndexSpec>;

export const observedField = z
  .string()
  .max(MAX_FIELD_PATH)
  .regex(OBSERVED_FIELD, 'must be a path such as spec.renewTime or status.conditions[type=Ready].status');

/** Strict: with a misspelt `matchLabels` it would select everything. `isSelector` checks its keys and values. */
export const labelSelector: z.ZodType<LabelSelector> = z.strictObject({
  matchLabels: z.record(z.string().max(MAX_LABEL_KEY), z.string().max(MAX_LABEL_VALUE)).exactOptional(),
  matchExpressions: z
    .array(
      z.strictObject({
        key: z.string().max(MAX_LABEL_KEY),
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
        values: z.array(z.string().max(MAX_LABEL_VALUE)).exactOptional(),
      }),
    )
    .exactOptional(),
});

/** Whether apimachinery takes a selector: its keys and values are those of labels, as its operators need them. */
export function isSelector(selector: LabelSelector): boolean {
  try {
    requirementsOf(selector);
    return true;
  } catch {
    return false;
  }
}

const cel = z.string().min(1).max(MAX_CEL_LENGTH);

/**
 * Not recursive, since the schema of a custom resource cannot be: one schema for each depth. Strict, since a predicate
 * that ignores an unknown part would pass events that it should stop.
 */
function predicateOf(depth: number): z.ZodType<Predicate> {
  const leaf = {
    changed: z.enum(['generation', 'resourceVersion', 'labels', 'annotations']).exactOptional(),
    labelSelector: labelSelector.exactOptional(),
    cel: cel.exactOptional(),
  };
  const inner = depth > 1 ? predicateOf(depth - 1) : undefined;
  const list = inner && z.array(inner).min(1).max(MAX_PREDICATE_NODES).exactOptional();
  const shape = list ? { ...leaf, all: list, any: list, not: inner.exactOptional() } : leaf;
  const schema = z
    .strictObject(shape)
    .refine((value) => Object.keys(value).length === 1, `must have exactly one of ${Object.keys(shape).join(', ')}`)
    .meta({ id: `Predicate${depth}`, minProperties: 1, maxProperties: 1 });
  // A union of the single properties: the check above allows exactly one.
  return schema as unknown as z.ZodType<Predicate>;
}

const namespaces = z.array(namespace).min(1).max(100).exactOptional();

const source = groupVersionKind.extend({ namespaces, predicate: predicateOf(MAX_PREDICATE_DEPTH).exactOptional() });

const owner = z.enum(['controller', 'any']).exactOptional();

const watchMap = z.discriminatedUnion(
  'by',
  [
    z.object({ by: z.literal('index'), index: indexSpec }),
    z.object({ by: z.literal('selector'), path: fieldPath, orphansOnly: z.boolean().exactOptional() }),
    z.object({ by: z.literal('owner'), owner }),
    z.object({ by: z.literal('label'), label: labelKey }),
    z.object({ by: z.literal('annotation'), annotation: labelKey }),
    z.object({ by: z.literal('field'), path: fieldPath }),
    z.object({ by: z.literal('related') }),
    z.object({ by: z.literal('all') }),
    z.object({ by: z.literal('cel'), expression: cel }),
  ],
  { error: 'must be an object whose `by` is index, selector, owner, label, annotation, field, related, all or cel' },
);

/** The forms of `for`, `owns`, `watches`, `reads` and `writes`. */
export const reconciled = source.extend({ labelSelector: labelSelector.exactOptional() });
export const owned = source.extend({ owner });
export const watched = source.extend({ map: watchMap });
export const read = groupVersionKind.extend({ namespaces });
export const written = groupVersionKind.extend({
  namespaces,
  subresource: dnsLabel.exactOptional(),
  verbs: z.array(z.enum(WRITE_VERBS)).min(1).max(WRITE_VERBS.length),
});
