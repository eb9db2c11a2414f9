import type { GroupVersionKind, LabelSelector } from '../core/index.ts';
import { type CacheLocation, CONTRACT_VERSION, ContractError } from './trigger.ts';

/** A webhook of a function, as its description declares it. Names are unique within a function. */
export type WebhookDescription = AdmissionDescription | ConversionDescription;

/** Webhooks of one function, at most. */
export const MAX_WEBHOOKS = 16;

/** The gateway's choices when the cache that a review reads is older than the webhook allows. */
export const STALE_CACHE_CHOICES = ['review', 'fail', 'allow'] as const;

/**
 * Reviews the writes of one kind before the apiserver stores them: `apiVersion` and `kind` are the objects'. The fields
 * have the meaning and the defaults of `admissionregistration.k8s.io/v1`, unless stated otherwise.
 */
export interface AdmissionDescription extends GroupVersionKind {
  readonly type: 'validating' | 'mutating';
  /** A DNS label. */
  readonly name: string;
  /** At least one. Default in the SDK: `CREATE` and `UPDATE`. */
  readonly operations: readonly ('CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT')[];
  /**
   * Reviews writes of these subresources (`status`, `scale`) and not of the object itself. Default: of the object
   * itself.
   */
  readonly subresources?: readonly string[];
  /** Only in these namespaces. Default: all, or none for a cluster-scoped kind. */
  readonly namespaces?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
  readonly objectSelector?: LabelSelector;
  /** CEL over `object`, `oldObject`, `request` and `authorizer`, evaluated by the apiserver. All must be true. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
  /** The apiserver's action when no answer comes. Default `Fail`. */
  readonly failurePolicy?: 'Fail' | 'Ignore';
  /** Default `Equivalent`. */
  readonly matchPolicy?: 'Exact' | 'Equivalent';
  /** For a mutating webhook. Default `Never`. */
  readonly reinvocationPolicy?: 'Never' | 'IfNeeded';
  /** `NoneOnDryRun`: it has side effects, except in a dry run. Default `None`. */
  readonly sideEffects?: 'None' | 'NoneOnDryRun';
  /** How long the apiserver waits, in seconds: 1 to 30. Default 10. */
  readonly timeoutSeconds?: number;
  /** Only for a review that reads the cache. Default: the cache may have any age. */
  readonly cache?: CacheAgeLimit;
}

/** How old the cache may be for a review, and what happens when it is older. */
export interface CacheAgeLimit {
  /** At least 5. */
  readonly maxAgeSeconds: number;
  /**
   * `review`: the function reviews anyway, and sees the age. `fail`: there is no review, and the failure policy
   * decides. `allow`: there is no review, and the write is allowed with a warning.
   */
  readonly otherwise: (typeof STALE_CACHE_CHOICES)[number];
}

/** Converts the objects of a custom resource between its versions: `apiVersion` is the hub's. */
export interface ConversionDescription extends GroupVersionKind {
  readonly type: 'conversion';
  /** A DNS label. */
  readonly name: string;
  /** The versions without their group, the hub's among them: `v1`, `v2`. At least two. */
  readonly versions: readonly string[];
}

/**
 * The body of the signed `POST` that asks a function for one review. It goes to the same address as a trigger; the
 * field `webhook` distinguishes them. The answer, with status 200 and the levelhook header, is the `AdmissionReview` or
 * `ConversionReview` with its `response`. Any other answer counts as none, so the failure policy decides.
 */
export interface ReviewRequest {
  readonly version: typeof CONTRACT_VERSION;
  /** The name of the controller, as the function describes itself. */
  readonly controller: string;
  /** The name of the webhook in the description. */
  readonly webhook: string;
  /**
   * Whether a client certificate proved to the gateway that an apiserver sent the review. If false, anyone who reaches
   * the gateway's port may have made the review up, and it comes without the cache: `cache` names no view and has no
   * token. The answer goes to the sender, so it must reveal nothing that the review itself lacks. The apiserver has no
   * certificate for conversions. Absent: the gateway is older and does not say.
   */
  readonly authenticated?: boolean;
  /** RFC 3339. The caller waits no longer. */
  readonly deadline: string;
  /** Seconds left when it was sent. The function takes the earlier of this and `deadline`, because clocks differ. */
  readonly remainingSeconds: number;
  /**
   * The cache of the kinds that the controller reads; of none if `authenticated` is false. Concurrent reviews share a
   * token.
   */
  readonly cache: CacheLocation;
  /**
   * By `apiVersion/Kind` of the kinds in the cache: for how many seconds at most the cache may lack a change. A kind
   * of unknown age is absent.
   */
  readonly cacheAgeSeconds: Readonly<Record<string, number>>;
  /** As the apiserver sent it: `admission.k8s.io/v1` or `apiextensions.k8s.io/v1`. */
  readonly review: Review;
}

/** An `AdmissionReview` or a `ConversionReview` with its request, unparsed. */
export interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: { readonly uid: string };
}

/** Whether a decoded body is a review and not a trigger. */
export function isReviewRequest(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'webhook');
}

/**
 * Checks the verified and parsed body of a review: as for a trigger, the shape that a function relies on.
 * @throws ContractError when a field is missing, or the version is another one.
 */
export function decodeReviewRequest(body: unknown): ReviewRequest {
  const value = body as Partial<ReviewRequest>;
  if (value.version !== CONTRACT_VERSION) throw new ContractError(`this function speaks contract ${CONTRACT_VERSION}`);
  const complete =
    typeof value.controller === 'string' &&
    typeof value.webhook === 'string' &&
    typeof value.deadline === 'string' &&
    typeof value.remainingSeconds === 'number' &&
    isObject(value.cache?.views) &&
    isObject(value.cacheAgeSeconds) &&
    isReview(value.review);
  if (!complete) throw new ContractError('the review lacks a field that contract v1 requires');
  return value as ReviewRequest;
}

/** Whether the value has the fields of every review. */
export function isReview(value: unknown): value is Review {
  if (!isObject(value)) return false;
  const { apiVersion, kind, request } = value as Partial<Review>;
  return typeof apiVersion === 'string' && typeof kind === 'string' && typeof request?.uid === 'string';
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
