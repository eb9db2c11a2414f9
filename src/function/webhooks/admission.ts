import { type KubernetesObject, type Resource, shown } from '../../core/index.ts';
import type { AdmissionDescription, Review } from '../../contract/index.ts';
import type { ReviewContext, Webhook } from '../webhook.ts';
import { type AdmissionRequest, decodeAdmissionRequest } from './admission-request.ts';
import type { Denial } from './denial.ts';
import { webhookWith } from './serve-review.ts';

/**
 * The declaration of an admission webhook. Its other fields have the meaning of the same fields in
 * `admissionregistration.k8s.io/v1`; `levelhook manifest` writes the webhook configuration from it.
 */
export interface AdmissionWebhookOptions<T extends KubernetesObject> extends Omit<
  AdmissionDescription,
  'type' | 'apiVersion' | 'kind' | 'operations'
> {
  /** The kind whose writes are reviewed. */
  readonly for: Resource<T>;
  /** Default: `CREATE` and `UPDATE`. */
  readonly operations?: AdmissionDescription['operations'];
}

/** The context of an admission. It must not be used after the review. */
export interface AdmissionContext extends ReviewContext {
  /** Shows the client a warning, whether the write is allowed or not. The apiserver keeps 4096 characters in all. */
  readonly warn: (text: string) => void;
  /**
   * Adds an annotation to this request in the audit log: `audit('owner', 'alice')`. The apiserver prefixes the key with
   * the name of the webhook.
   * @throws TypeError for a key that is no part of an annotation's key.
   */
  readonly audit: (key: string, value: string) => void;
}

/** Decides on a write: returns a denial, or nothing to allow it. */
type Decide<O extends object> = (
  request: AdmissionRequest<O>,
  context: AdmissionContext,
) => Promise<{ readonly denial?: Denial; readonly patch?: string | undefined }>;

/** @param decide the code of the webhook. */
export function admissionWebhook<T extends KubernetesObject, O extends object>(
  type: AdmissionDescription['type'],
  { for: resource, ...options }: AdmissionWebhookOptions<T>,
  decide: Decide<O>,
): Webhook {
  const { apiVersion, kind } = resource;
  const description = { type, apiVersion, kind, operations: ['CREATE', 'UPDATE'] as const, ...options };
  return webhookWith({
    for: resource,
    description,
    async review(review: Review, context: ReviewContext) {
      const request = decodeAdmissionRequest<O>(review, resource, description);
      const warnings: string[] = [];
      const audited = new Map<string, string>();
      const { denial, patch } = await decide(request, admissionContext(context, warnings, audited));
      return {
        allowed: !denial,
        ...(denial ? { status: denial.status } : {}),
        ...(patch === undefined ? {} : { patchType: 'JSONPatch', patch }),
        ...(warnings.length === 0 ? {} : { warnings }),
        ...(audited.size === 0 ? {} : { auditAnnotations: Object.fromEntries(audited) }),
      };
    },
  });
}

/**
 * `IsQualifiedName` without a prefix. The apiserver would report another key in its own log only
 * (pkg/audit/context.go).
 */
const AUDIT_KEY = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Keeps the getters of the review's context. */
function admissionContext(context: ReviewContext, warnings: string[], audited: Map<string, string>): AdmissionContext {
  return Object.defineProperties({} as AdmissionContext, {
    ...Object.getOwnPropertyDescriptors(context),
    warn: { enumerable: true, value: (text: string): void => void warnings.push(text) },
    audit: {
      enumerable: true,
      value(key: string, value: string): void {
        if (!AUDIT_KEY.test(key)) throw new TypeError(`${shown(key)} is no key of an audit annotation`);
        audited.set(key, value);
      },
    },
  });
}
