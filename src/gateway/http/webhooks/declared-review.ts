import { formatKind, groupOf, parseJson, type Resource, versionOf } from '../../../core/index.ts';
import type { AdmissionDescription, ConversionDescription, WebhookDescription } from '../../../contract/index.ts';
import { badRequest, StatusError } from '../cache-api/kubernetes-status.ts';

/** A webhook of a controller, and its kind as the cluster serves it. */
export interface ServedWebhook {
  readonly webhook: WebhookDescription;
  readonly resource: Resource;
}

/** The fields of an `AdmissionReview` of `admission.k8s.io/v1` that the gateway reads. */
interface AdmissionRequest {
  readonly uid: string;
  readonly kind: GroupVersionKindParts;
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  readonly subResource?: string;
  readonly namespace?: string;
  readonly operation: string;
}

interface GroupVersionKindParts {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** The same of a `ConversionReview` of `apiextensions.k8s.io/v1`. */
interface ConversionRequest {
  readonly uid: string;
  readonly desiredAPIVersion: string;
  readonly objects: readonly { readonly apiVersion?: unknown; readonly kind?: unknown }[];
}

const ADMISSION = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' } as const;
const CONVERSION = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview' } as const;

/** The form of the reviews of a webhook. */
export function reviewKindOf({ type }: WebhookDescription): typeof ADMISSION | typeof CONVERSION {
  return type === 'conversion' ? CONVERSION : ADMISSION;
}

/**
 * Decodes a review, and checks that the webhook declares it: an account that may not read an object must get no review
 * of it, whatever the webhook configuration says.
 * @returns the UID of its request.
 * @throws StatusError 400 for anything but a review of the webhook's type, 403 for a review that is not declared.
 */
export function checkReview(text: string, { webhook, resource }: ServedWebhook): string {
  const { apiVersion, kind } = reviewKindOf(webhook);
  let value: { apiVersion?: unknown; kind?: unknown; request?: unknown } | null;
  try {
    value = parseJson(text) as typeof value;
  } catch {
    throw badRequest('the body is not JSON');
  }
  if (value?.apiVersion !== apiVersion || value.kind !== kind) {
    throw badRequest(`the body is not a ${kind} of ${apiVersion}: name v1 in the review versions of the webhook`);
  }
  const problem =
    webhook.type === 'conversion'
      ? conversionProblem(value.request, webhook)
      : admissionProblem(value.request, webhook, resource);
  if (problem === 'malformed') throw badRequest(`the ${kind} lacks a part of its request`);
  if (problem !== undefined) {
    throw new StatusError({
      code: 403,
      reason: 'Forbidden',
      message: `the webhook ${webhook.name} gets no review of this request: ${problem}`,
    });
  }
  return (value.request as { uid: string }).uid;
}

type Problem = string | undefined;

function admissionProblem(request: unknown, webhook: AdmissionDescription, resource: Resource): Problem {
  if (!isAdmission(request)) return 'malformed';
  const { kind, namespace, operation, subResource = '' } = request;
  // Of the version that the rules name, whatever version was written: `requestResource` has that.
  const { group, version, resource: plural } = request.resource;
  if (group !== groupOf(resource) || version !== versionOf(resource) || plural !== resource.plural) {
    return `it declares ${formatKind(webhook)}`;
  }
  const declared = webhook.subresources ?? [''];
  if (!declared.includes(subResource)) {
    return subResource === '' ? 'it declares subresources only' : `it does not declare the subresource ${subResource}`;
  }
  // The kind of a subresource may be another, such as Scale.
  if (subResource === '' && kind.kind !== webhook.kind) return `it declares ${formatKind(webhook)}`;
  if (!webhook.operations.some((each) => each === operation)) return `it does not declare the operation ${operation}`;
  const { namespaces } = webhook;
  if (namespaces && (namespace === undefined || !namespaces.includes(namespace))) {
    return namespace ? `it does not declare the namespace ${namespace}` : 'it declares namespaces';
  }
  return undefined;
}

function conversionProblem(request: unknown, { apiVersion, kind, versions }: ConversionDescription): Problem {
  if (!isConversion(request)) return 'malformed';
  const group = groupOf({ apiVersion });
  const isDeclared = (each: string): boolean =>
    groupOf({ apiVersion: each }) === group && versions.includes(versionOf({ apiVersion: each }));
  if (!isDeclared(request.desiredAPIVersion)) return `it does not declare ${request.desiredAPIVersion}`;
  for (const object of request.objects) {
    if (typeof object.apiVersion !== 'string' || typeof object.kind !== 'string') return 'malformed';
    if (object.kind !== kind) return `it does not declare ${object.kind}`;
    if (!isDeclared(object.apiVersion)) return `it does not declare ${object.apiVersion}`;
  }
  return undefined;
}

function isAdmission(value: unknown): value is AdmissionRequest {
  const { uid, kind, resource, subResource, namespace, operation } = (value ?? {}) as Partial<AdmissionRequest>;
  return (
    isName(uid) &&
    typeof kind?.kind === 'string' &&
    [resource?.group, resource?.version, resource?.resource, operation].every((each) => typeof each === 'string') &&
    [subResource, namespace].every((each) => each === undefined || typeof each === 'string')
  );
}

function isConversion(value: unknown): value is ConversionRequest {
  const { uid, desiredAPIVersion, objects } = (value ?? {}) as Partial<ConversionRequest>;
  return (
    isName(uid) &&
    typeof desiredAPIVersion === 'string' &&
    Array.isArray(objects) &&
    objects.every((each) => typeof each === 'object' && each !== null)
  );
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}
