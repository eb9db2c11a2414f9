import { z } from 'zod';
import { type Condition, type KubernetesObject, resource } from '../../core/index.ts';
import { CONTRACT_VERSION, type Description } from '../../contract/index.ts';
import { descriptionShape } from '../../contract/description-schema.ts';
import { dnsLabel, dnsSubdomain, withOwnKeys } from '../../contract/name-schema.ts';
import { checkBytes } from '../controller/handlers/check-sources.ts';
import { SourceError } from '../controller/handlers/source-error.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

/** A ReconcileFunction without its spec: the form in which the gateway keeps each that the cluster has. */
export interface PartialReconcileFunction extends KubernetesObject {
  readonly status?: ReconcileFunctionStatus;
}

/** A controller, declared in the cluster. The definition in `infra/crds` refuses most invalid objects by itself. */
export interface ReconcileFunction extends PartialReconcileFunction {
  readonly spec: unknown;
}

export interface ReconcileFunctionStatus {
  readonly observedGeneration?: number;
  /** Where triggers are sent. */
  readonly url?: string;
  readonly conditions?: readonly Condition[];
}

export const ReconcileFunction = resource<ReconcileFunction>('levelhook.dev/v1alpha1', 'ReconcileFunction');

/** Of a ConfigMap or a Secret: apimachinery's `IsConfigMapKey`. */
const dataKey = z
  .string()
  .max(253)
  .regex(/^[-._a-zA-Z0-9]+$/, 'must be a key of a Secret');

const service = z.strictObject({
  name: dnsLabel,
  port: z.union([z.int().min(1).max(65_535), dnsLabel], 'must be a port number or the name of a port'),
  path: z.string().startsWith('/').max(1024).default('/'),
  scheme: z.enum(['http', 'https']).default('http'),
});

const endpoint = z
  .strictObject({
    url: z.string().max(2048).exactOptional(),
    service: service.exactOptional(),
    caBundle: z.base64().max(65_536).exactOptional(),
  })
  .refine(
    ({ url, service: named }) => (url === undefined) !== (named === undefined),
    'must have either url or service',
  );

/**
 * Who a function is at the apiserver: `own`, as it says itself; `token`, its ServiceAccount, by a token that comes with
 * each trigger; `proxy`, the same, through the gateway.
 */
export const CREDENTIALS = ['own', 'token', 'proxy'] as const;

export const specSchema = z.strictObject({
  endpoint,
  serviceAccountName: dnsSubdomain,
  credentials: z.enum(CREDENTIALS).default('own'),
  signingSecret: z.strictObject({ name: dnsSubdomain, key: dataKey.default('secrets') }),
  paused: z.boolean().exactOptional(),
  ...descriptionShape,
});

const decodedSchema = withOwnKeys(specSchema);

/** The spec of a ReconcileFunction, with the defaults filled in. */
export interface ReconcileFunctionSpec {
  readonly description: Description;
  readonly endpoint: z.infer<typeof endpoint>;
  readonly serviceAccountName: string;
  readonly credentials: (typeof CREDENTIALS)[number];
  readonly signingSecret: { readonly name: string; readonly key: string };
  /** Undefined: as it was set by hand (`levelhook pause`). */
  readonly paused: boolean | undefined;
}

/** @throws InvalidFunctionError naming the field that is wrong. */
export function decodeSpec(object: ReconcileFunction): ReconcileFunctionSpec {
  const { name }: { name: string } = object.metadata;
  if (!dnsLabel.safeParse(name).success) {
    throw new InvalidFunctionError(
      'Ready',
      'InvalidName',
      `metadata.name must be a DNS label, as it names the controller: ${name} is none`,
    );
  }
  checkSize(object.spec);
  const parsed = decodedSchema.safeParse(object.spec);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = ['spec', ...(issue?.path ?? [])].map(String).join('.');
    throw new InvalidFunctionError('Ready', 'InvalidSpec', `${path} is wrong: ${issue?.message}`);
  }
  const { endpoint: where, serviceAccountName, credentials, signingSecret, paused, ...declaration } = parsed.data;
  const description = { version: CONTRACT_VERSION, name, ...declaration } as Description;
  return { description, endpoint: where, serviceAccountName, credentials, signingSecret, paused };
}

/** Before it is decoded. A bundle of certificates has a bound of its own. */
function checkSize(spec: unknown): void {
  const { endpoint, ...rest } = (spec ?? {}) as { endpoint?: { caBundle?: unknown } };
  const { caBundle: _, ...address } = endpoint ?? {};
  try {
    checkBytes({ ...rest, endpoint: address }, 'spec');
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw new InvalidFunctionError('Ready', error.reason, error.message);
  }
}
