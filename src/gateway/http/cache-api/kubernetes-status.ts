/** The parts of a Kubernetes `Status` that a refusal fills in (apimachinery, pkg/api/errors). */
export interface StatusParts {
  readonly code: number;
  readonly message: string;
  readonly reason?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /** Sent as Retry-After too: clients of Kubernetes wait and ask again. */
  readonly retryAfterSeconds?: number;
}

/** A request that is answered with a Kubernetes `Status`. Messages are the apiserver's for the same request. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly status: StatusParts;

  constructor(status: StatusParts) {
    super(status.message);
    this.status = status;
  }
}

/** The resource of a request, as messages name it: `pods`, `deployments.apps`. */
export interface GroupResource {
  readonly group: string;
  readonly resource: string;
}

const qualified = ({ group, resource }: GroupResource): string => (group ? `${resource}.${group}` : resource);
const detailsOf = ({ group, resource }: GroupResource, name?: string) => ({
  ...(name ? { name } : {}),
  ...(group ? { group } : {}),
  kind: resource,
});

export const unauthorized = (): StatusError =>
  new StatusError({ code: 401, reason: 'Unauthorized', message: 'Unauthorized' });

export function forbidden(
  user: string,
  verb: string,
  of: GroupResource & { subresource?: string | undefined; name?: string | undefined; namespace?: string | undefined },
): StatusError {
  const { group, resource, subresource, name, namespace } = of;
  const what = name ? `${qualified(of)} "${name}"` : qualified(of);
  const whole = subresource ? `${resource}/${subresource}` : resource;
  const where = namespace ? `in the namespace "${namespace}"` : 'at the cluster scope';
  const right = `cannot ${verb} resource ${JSON.stringify(whole)} in API group ${JSON.stringify(group)}`;
  return new StatusError({
    code: 403,
    reason: 'Forbidden',
    message: `${what} is forbidden: User ${JSON.stringify(user)} ${right} ${where}`,
    details: detailsOf(of, name),
  });
}

export const forbiddenPath = (user: string, path: string): StatusError =>
  new StatusError({
    code: 403,
    reason: 'Forbidden',
    message: `forbidden: User ${JSON.stringify(user)} cannot get path ${JSON.stringify(path)}`,
    details: {},
  });

export const notFound = (of: GroupResource, name: string): StatusError =>
  new StatusError({
    code: 404,
    reason: 'NotFound',
    message: `${qualified(of)} ${JSON.stringify(name)} not found`,
    details: detailsOf(of, name),
  });

export const noSuchResource = (): StatusError =>
  new StatusError({
    code: 404,
    reason: 'NotFound',
    message: 'the server could not find the requested resource',
    details: {},
  });

export const methodNotAllowed = (): StatusError =>
  new StatusError({
    code: 405,
    reason: 'MethodNotAllowed',
    message: 'the server does not allow this method on the requested resource',
    details: {},
  });

export const watchNotSupported = ({ group, resource }: GroupResource): StatusError =>
  new StatusError({
    code: 405,
    reason: 'MethodNotAllowed',
    message: `watch is not supported on resources of kind ${JSON.stringify(qualified({ group, resource }))}`,
    details: detailsOf({ group, resource }),
  });

export const notAcceptable = (): StatusError =>
  new StatusError({
    code: 406,
    reason: 'NotAcceptable',
    message: 'only the following media types are accepted: application/json',
  });

export const badRequest = (message: string): StatusError =>
  new StatusError({ code: 400, reason: 'BadRequest', message });

/** @param cause of one field of ListOptions. */
export const invalidListOptions = (
  causes: readonly { reason: string; message: string; field: string }[],
): StatusError => {
  const texts = causes.map(({ field, message }) => `${field}: ${message}`);
  const text = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`;
  return new StatusError({
    code: 422,
    reason: 'Invalid',
    message: `ListOptions.meta.k8s.io "" is invalid: ${text}`,
    details: { group: 'meta.k8s.io', kind: 'ListOptions', causes },
  });
};

export const expired = (message: string): StatusError => new StatusError({ code: 410, reason: 'Expired', message });

export const tooLarge = (message: string): StatusError =>
  new StatusError({ code: 413, reason: 'RequestEntityTooLarge', message });

export const tooLargeResourceVersion = (wanted: string, current: string): StatusError =>
  new StatusError({
    code: 504,
    reason: 'Timeout',
    message: `Timeout: Too large resource version: ${wanted}, current: ${current}`,
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
    retryAfterSeconds: 1,
  });

export const tooManyRequests = (message: string, retryAfterSeconds = 1): StatusError =>
  new StatusError({
    code: 429,
    reason: 'TooManyRequests',
    message,
    details: { retryAfterSeconds },
    retryAfterSeconds,
  });

/** The object exists, and the gateway cannot handle it. */
export const keptOut = (message: string): StatusError =>
  new StatusError({ code: 500, reason: 'InternalError', message });

export const beingChecked = (): StatusError => unavailable('the cache is being checked');

export const unavailable = (message: string): StatusError =>
  new StatusError({
    code: 503,
    reason: 'ServiceUnavailable',
    message,
    details: { retryAfterSeconds: 1 },
    retryAfterSeconds: 1,
  });

export const HEADERS = { 'cache-control': 'no-cache, private', 'x-content-type-options': 'nosniff' };

/** @param bodyless for a HEAD. */
export function statusResponse(
  { code, message, reason, details, retryAfterSeconds }: StatusParts,
  bodyless = false,
): Response {
  const body = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    ...(reason ? { reason } : {}),
    ...(details ? { details } : {}),
    code,
  };
  const headers: Record<string, string> = { ...HEADERS, 'content-type': 'application/json' };
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds);
  return new Response(bodyless ? null : `${JSON.stringify(body)}\n`, { status: code, headers });
}
