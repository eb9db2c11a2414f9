import {
  formatKind,
  formatObjectKey,
  groupOf,
  keyOf,
  type KubernetesObject,
  messageOf,
  type Resource,
  shown,
  versionOf,
} from '../../core/index.ts';
import { ContractError, type Review } from '../../contract/index.ts';
import type { Webhook } from '../webhook.ts';
import { webhookWith } from './serve-review.ts';

/**
 * The result of a conversion: the object in the other version. Labels and annotations that are absent stay as they
 * were, and `{}` removes all. All other `metadata` is taken from the original.
 */
export type Converted<T extends KubernetesObject> = Omit<T, keyof KubernetesObject> & {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: Partial<Pick<KubernetesObject['metadata'], 'labels' | 'annotations'>>;
};

/**
 * The conversions of a version, which depend on the object alone. Together they must lose nothing: store values that
 * the other version has no field for in an annotation. `roundTrip` of `levelhook/testing/reconciler` tests this. They
 * get a copy.
 */
export interface Conversions<H extends KubernetesObject, S extends KubernetesObject> {
  toHub(object: S): Converted<H> | Promise<Converted<H>>;
  fromHub(object: H): Converted<S> | Promise<Converted<S>>;
}

export interface ConversionWebhookOptions<H extends KubernetesObject> {
  /** A DNS label. */
  readonly name: string;
  /** All other versions are converted through this one. The stored version is the usual choice. */
  readonly hub: Resource<H>;
}

/** Adds versions. */
export interface ConversionHub<H extends KubernetesObject> {
  /** @throws TypeError unless the resource is another version of the hub's kind. */
  spoke<S extends KubernetesObject>(resource: Resource<S>, conversions: Conversions<H, S>): ConversionWebhook<H>;
}

export interface ConversionWebhook<H extends KubernetesObject> extends ConversionHub<H>, Webhook {}

/**
 * Declares the conversions between the versions of a custom resource, each to the hub and from it:
 *
 * ```ts
 * const versions = conversionWebhook({ name: 'versions', hub: WidgetV2 }).spoke(WidgetV1, {
 *   toHub: ({ spec }) => ({ spec: { size: Number(spec.size) } }),
 *   fromHub: ({ spec }) => ({ spec: { size: String(spec.size) } }),
 * });
 * ```
 *
 * If one object cannot be converted, the whole review fails, and the client sees the error's message.
 */
export function conversionWebhook<H extends KubernetesObject>(options: ConversionWebhookOptions<H>): ConversionHub<H> {
  return hubWith(options, []);
}

interface AnySpoke extends Conversions<KubernetesObject, KubernetesObject> {
  readonly resource: Resource;
}

function hubWith<H extends KubernetesObject>(
  options: ConversionWebhookOptions<H>,
  spokes: readonly AnySpoke[],
): ConversionHub<H> {
  const { name, hub } = options;
  return {
    spoke(resource, conversions) {
      const known = [hub, ...spokes.map((each) => each.resource)].map(formatKind);
      if (resource.kind !== hub.kind || groupOf(resource) !== groupOf(hub) || known.includes(formatKind(resource))) {
        throw new TypeError(`the spoke ${formatKind(resource)} of ${name} is no other version of ${formatKind(hub)}`);
      }
      // Each spoke gets objects of its own version alone.
      const more = [...spokes, { resource, ...conversions } as unknown as AnySpoke];
      return { ...hubWith(options, more), ...webhookOf(options, more) };
    },
  };
}

function webhookOf({ name, hub }: ConversionWebhookOptions<KubernetesObject>, spokes: readonly AnySpoke[]): Webhook {
  const { apiVersion, kind } = hub;
  const versions = [hub, ...spokes.map(({ resource }) => resource)].map(versionOf);
  const known = { hub, spokes: new Map(spokes.map((spoke) => [formatKind(spoke.resource), spoke])) };
  return webhookWith({
    for: hub,
    description: { type: 'conversion', name, apiVersion, kind, versions },
    async review(review) {
      const { desiredAPIVersion, objects } = decode(review, name);
      const convertedObjects: object[] = [];
      for (const object of objects) {
        try {
          // One after the other, so that a list of thousands does not create as many promises at once.
          convertedObjects.push(await convert(object, desiredAPIVersion, known));
        } catch (error) {
          const what = `${described(object)} cannot be converted to ${shown(desiredAPIVersion)}`;
          const message = `${what}: ${messageOf(error)}`.slice(0, MAX_MESSAGE);
          return { result: { status: 'Failure', message } };
        }
      }
      return { convertedObjects, result: { status: 'Success' } };
    },
  });
}

const MAX_MESSAGE = 1024;
const API_VERSION = 'apiextensions.k8s.io/v1';

interface Versions {
  readonly hub: Resource;
  /** By `apiVersion/Kind`. */
  readonly spokes: ReadonlyMap<string, AnySpoke>;
}

function decode({ apiVersion, kind, request }: Review, name: string) {
  if (apiVersion !== API_VERSION || kind !== 'ConversionReview') {
    const given = `the ${shown(kind)} of ${shown(apiVersion)}`;
    throw new ContractError(
      `the webhook ${name} does not answer ${given}, only the ConversionReview of ${API_VERSION}`,
    );
  }
  const { desiredAPIVersion, objects } = request as { desiredAPIVersion?: unknown; objects?: unknown };
  if (typeof desiredAPIVersion !== 'string' || !Array.isArray(objects) || !objects.every(isWhole)) {
    throw new ContractError(`the webhook ${name} does not answer a review without desiredAPIVersion and objects`);
  }
  return { desiredAPIVersion, objects };
}

function isWhole(value: Partial<KubernetesObject> | null): value is KubernetesObject {
  const { apiVersion, kind, metadata } = value ?? {};
  return (
    typeof apiVersion === 'string' && typeof kind === 'string' && typeof metadata === 'object' && metadata !== null
  );
}

async function convert(
  original: KubernetesObject,
  apiVersion: string,
  { hub, spokes }: Versions,
): Promise<KubernetesObject> {
  const { kind } = original;
  if (original.apiVersion === apiVersion && kind === hub.kind) return original;
  const from = spokes.get(formatKind(original));
  const to = spokes.get(formatKind({ apiVersion, kind }));
  if (!from && formatKind(original) !== formatKind(hub)) throw new Error('the webhook does not know its version');
  if (!to && apiVersion !== hub.apiVersion) throw new Error('the webhook does not know that version');
  // Copies, as the author's code may change its arguments.
  const object = structuredClone(original);
  const inHub = from ? withMetadata(await from.toHub(object), hub, original) : object;
  return to ? withMetadata(await to.fromHub(structuredClone(inHub)), to.resource, inHub) : inHub;
}

/**
 * The apiserver refuses another name, namespace or UID, and takes everything but labels and annotations from the
 * original (apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go).
 */
function withMetadata(
  converted: Converted<KubernetesObject>,
  { apiVersion, kind }: Resource,
  original: KubernetesObject,
): KubernetesObject {
  if (typeof converted !== 'object' || converted === null) throw new TypeError('the conversion has returned no object');
  const { labels: _, annotations: __, ...identity } = structuredClone(original.metadata);
  const { labels = original.metadata.labels, annotations = original.metadata.annotations } = converted.metadata ?? {};
  const metadata = { ...identity, ...(labels ? { labels } : {}), ...(annotations ? { annotations } : {}) };
  return { ...converted, apiVersion, kind, metadata };
}

function described({ apiVersion, kind, metadata }: KubernetesObject): string {
  return `${apiVersion}/${kind} ${formatObjectKey(keyOf({ apiVersion, kind, metadata }))}`.slice(0, MAX_MESSAGE / 2);
}
