import { groupOf, type KubernetesObject, type Resource, shown, versionOf } from '../../core/index.ts';
import { type AdmissionDescription, ContractError, type Review } from '../../contract/index.ts';

/**
 * The reviewed write, as `AdmissionRequest` of `admission.k8s.io/v1`, except for `object`: on DELETE it is the deleted
 * object. On CREATE an object has no `uid` and no `resourceVersion` yet, and perhaps no name.
 */
export type AdmissionRequest<T extends object = KubernetesObject> = AdmissionDetails &
  (
    | { readonly operation: 'CREATE' | 'CONNECT'; readonly object: T; readonly oldObject: undefined }
    | { readonly operation: 'UPDATE' | 'DELETE'; readonly object: T; readonly oldObject: T }
  );

export interface AdmissionDetails {
  readonly uid: string;
  /** The object's kind: the webhook's declared kind, since the apiserver converts to it. */
  readonly kind: AdmissionKind;
  readonly resource: AdmissionResource;
  /** `status`, `scale`. Absent: the object itself. */
  readonly subResource?: string;
  /** The kind in the client's request: perhaps another version of the same kind. */
  readonly requestKind?: AdmissionKind;
  readonly requestResource?: AdmissionResource;
  readonly requestSubResource?: string;
  /** Empty while the apiserver has not generated it. */
  readonly name: string;
  /** Absent for a kind without namespaces. */
  readonly namespace?: string;
  /** Nothing is stored, so the webhook must have no side effects. */
  readonly dryRun: boolean;
  readonly userInfo: UserInfo;
  /** `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions` of `meta.k8s.io/v1`. */
  readonly options: Readonly<Record<string, unknown>>;
}

export interface AdmissionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export interface AdmissionResource {
  readonly group: string;
  readonly version: string;
  /** The plural. */
  readonly resource: string;
}

/** The user who writes. */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The only version that the apiserver has served since 1.22. */
const API_VERSION = 'admission.k8s.io/v1';

type RawRequest<T> = Omit<AdmissionDetails, 'name' | 'dryRun' | 'options'> & {
  readonly operation: AdmissionRequest['operation'];
  readonly name?: string;
  readonly dryRun?: boolean;
  readonly options?: Readonly<Record<string, unknown>> | null;
  readonly object?: T | null;
  readonly oldObject?: T | null;
};

/**
 * The request of a review that the webhook has declared.
 * @throws ContractError for any other review, which would not match the webhook's types.
 */
export function decodeAdmissionRequest<T extends object>(
  review: Review,
  resource: Resource,
  { name: webhook, operations, subresources = [''] }: AdmissionDescription,
): AdmissionRequest<T> {
  const refuse = (what: string): never => {
    throw new ContractError(`the webhook ${webhook} does not answer ${what}`);
  };
  const { apiVersion, kind } = review;
  if (apiVersion !== API_VERSION || kind !== 'AdmissionReview') {
    refuse(`the ${shown(kind)} of ${shown(apiVersion)}, only the AdmissionReview of ${API_VERSION}`);
  }
  const raw = review.request as RawRequest<T>;
  const { operation, resource: reviewed, subResource = '', object, oldObject, ...details } = raw;
  if (!isObject(reviewed) || !isObject(raw.kind) || typeof raw.userInfo?.username !== 'string') {
    refuse('a review whose request lacks kind, resource or userInfo');
  }
  const { plural } = resource;
  if (
    reviewed.resource !== plural ||
    reviewed.group !== groupOf(resource) ||
    reviewed.version !== versionOf(resource)
  ) {
    refuse(`a review of ${shown(reviewed.resource)}, only those of ${plural} of ${resource.apiVersion}`);
  }
  if (!operations.includes(operation)) refuse(`a review of the operation ${shown(operation)}`);
  if (!subresources.includes(subResource)) refuse(`a review of the subresource ${shown(subResource)}`);
  const written = operation === 'DELETE' ? oldObject : object;
  if (!isObject(written) || (operation === 'UPDATE' && !isObject(oldObject))) {
    refuse(`a review of the operation ${operation} without the object`);
  }
  return {
    ...details,
    ...(subResource === '' ? {} : { subResource }),
    resource: reviewed,
    name: raw.name ?? '',
    dryRun: raw.dryRun ?? false,
    options: raw.options ?? {},
    operation,
    object: written,
    oldObject: operation === 'UPDATE' || operation === 'DELETE' ? oldObject : undefined,
  } as AdmissionRequest<T>;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
