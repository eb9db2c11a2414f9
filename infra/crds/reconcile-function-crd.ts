import { stringify } from 'yaml';
import { z } from 'zod';
import { MAX_SOURCES } from '../../src/contract/source.ts';
import { ReconcileFunction, specSchema } from '../../src/gateway/registration/reconcile-function.ts';
import { type JsonSchema, type StructuralSchema, structuralSchema } from '../../src/cli/crds/structural-schema.ts';

/** The file, from the root of the repository. */
export const CRD_FILE = 'infra/crds/levelhook.dev_reconcilefunctions.yaml';

/**
 * Predicates within predicates within predicates: written out, they would be most of the definition. The gateway checks
 * them.
 */
export const OPAQUE = /Predicate[12]$/;

/** Without a bound the apiserver reckons the cost of rules about a text to be too high. */
export const MAX_LENGTH = 2048;

const condition = {
  type: 'object',
  required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  properties: {
    type: { type: 'string', maxLength: 316 },
    status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
    reason: { type: 'string', minLength: 1, maxLength: 1024 },
    message: { type: 'string', maxLength: 32_768 },
    observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
    lastTransitionTime: { type: 'string', format: 'date-time' },
  },
};

const status = {
  type: 'object',
  properties: {
    observedGeneration: {
      type: 'integer',
      format: 'int64',
      description: 'The generation of the spec that this is about.',
    },
    url: { type: 'string', description: 'Where triggers are sent.' },
    conditions: {
      type: 'array',
      description:
        'Ready sums up Authorized, Synced and Reachable; Paused says whether its keys wait because of `spec.paused` or `levelhook pause`.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      items: condition,
    },
  },
};

const sizes = ['owns', 'watches', 'reads'].map((field) => `(has(self.${field}) ? size(self.${field}) : 0)`);

/** What zod says in code rather than in JSON Schema, as rules. */
const RULES = {
  endpoint: [{ rule: 'has(self.url) != has(self.service)', message: 'spec.endpoint must have either url or service' }],
  '': [
    {
      rule: '!has(self.queue) || !has(self.queue.debounce) || self.queue.debounce.maxSeconds >= self.queue.debounce.seconds',
      message: 'spec.queue.debounce.maxSeconds must not be less than spec.queue.debounce.seconds',
    },
    {
      rule: '!has(self.queue) || !has(self.queue.debounce) || !has(self.queue.debounce.leading) || !self.queue.debounce.leading || self.queue.debounce.maxSeconds <= 60.0',
      message: 'spec.queue.debounce.maxSeconds must not exceed 60 with spec.queue.debounce.leading',
    },
    {
      rule: `1 + ${sizes.join(' + ')} <= ${MAX_SOURCES}`,
      message: `spec: for, owns, watches and reads together must name ${MAX_SOURCES} kinds at most`,
    },
  ],
};

/**
 * The CustomResourceDefinition of ReconcileFunction: its schema is the one by which the gateway itself reads the spec.
 */
export function reconcileFunctionCrd(): StructuralSchema {
  const json = z.toJSONSchema(specSchema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as JsonSchema;
  const spec = structuralSchema(json, { opaque: OPAQUE, maxLength: MAX_LENGTH });
  const properties = { ...spec.properties };
  // Their names are unique.
  const webhooks = {
    ...properties['webhooks'],
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  };
  const endpoint = { ...properties['endpoint'], 'x-kubernetes-validations': RULES.endpoint };
  const [group, version] = ReconcileFunction.apiVersion.split('/') as [string, string];
  const condition = (type: string, field: string): string => `.status.conditions[?(@.type=="${type}")].${field}`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${ReconcileFunction.plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: {
        kind: ReconcileFunction.kind,
        plural: ReconcileFunction.plural,
        singular: 'reconcilefunction',
        listKind: 'ReconcileFunctionList',
        shortNames: ['rfn'],
        categories: ['levelhook'],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: 'For', type: 'string', jsonPath: '.spec.for.kind' },
            { name: 'Ready', type: 'string', jsonPath: condition('Ready', 'status') },
            { name: 'Reason', type: 'string', jsonPath: condition('Ready', 'reason') },
            { name: 'Paused', type: 'string', jsonPath: condition('Paused', 'status'), priority: 1 },
            { name: 'URL', type: 'string', jsonPath: '.status.url', priority: 1 },
            { name: 'Message', type: 'string', jsonPath: condition('Ready', 'message'), priority: 1 },
            { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
          ],
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: 'A controller whose reconcile function is called by levelhook.',
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: {
                  ...spec,
                  properties: { ...properties, endpoint, webhooks },
                  'x-kubernetes-validations': RULES[''],
                },
                status,
              },
            },
          },
        },
      ],
    },
  };
}

export function formatCrd(): string {
  const head = '# Made of the schema by which the gateway reads a spec: `npm run crds`. Do not edit.\n';
  return head + stringify(reconcileFunctionCrd(), { aliasDuplicateObjects: false, lineWidth: 0 });
}
