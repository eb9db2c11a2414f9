/**
 * A request for a resource, as the apiserver's RequestInfoFactory reads it (apiserver,
 * pkg/endpoints/request/requestinfo.go).
 */
export interface ResourceRequest {
  readonly kind: 'resource';
  /** '' for the core group. */
  readonly group: string;
  readonly version: string;
  /** The plural. */
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
  /** More parts than a resource has. */
  readonly tooLong: boolean;
  /** Empty for an unknown method. */
  readonly verb: string;
}

export type RequestInfo =
  | ResourceRequest
  /** `/api`, `/apis`, `/api/v1`, `/apis/apps`, `/apis/apps/v1`, `/version`. */
  | { readonly kind: 'document'; readonly parts: readonly string[] }
  | { readonly kind: 'other' };

/** Subresources of a namespace itself: other URLs below a namespace are of resources in it. */
const NAMESPACE_SUBRESOURCES = new Set(['status', 'finalize']);

/** @param path decoded. @param query for `watch`. */
export function requestInfo(method: string, path: string, query: URLSearchParams): RequestInfo {
  const parts = path.replace(/^\/+|\/+$/g, '').split('/');
  const [prefix = ''] = parts;
  const rootLength = prefix === 'api' ? 2 : prefix === 'apis' ? 3 : 0;
  if (parts.length <= rootLength || (parts.length === 1 && prefix === 'version')) return { kind: 'document', parts };
  if (rootLength === 0 || parts.includes('')) return { kind: 'other' };
  const group = prefix === 'api' ? '' : (parts[1] ?? '');
  const version = parts[rootLength - 1] ?? '';
  let rest = parts.slice(rootLength);
  // The old form of a watch: /api/v1/watch/pods.
  const watched = rest[0] === 'watch' && rest.length > 1;
  if (watched) rest = rest.slice(1);
  let namespace: string | undefined;
  if (rest[0] === 'namespaces' && rest.length > 1) {
    namespace = rest[1];
    if (rest.length > 2 && !NAMESPACE_SUBRESOURCES.has(rest[2] ?? '')) rest = rest.slice(2);
  }
  const [resource = '', name, subresource] = rest;
  return {
    kind: 'resource',
    group,
    version,
    resource,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
    tooLong: rest.length > 3,
    verb: watched ? 'watch' : verbOf(method, name, query),
  };
}

function verbOf(method: string, name: string | undefined, query: URLSearchParams): string {
  switch (method) {
    case 'GET':
    case 'HEAD':
      return isTrue(query.get('watch')) ? 'watch' : name === undefined ? 'list' : 'get';
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return name === undefined ? 'deletecollection' : 'delete';
    default:
      return '';
  }
}

/** As apimachinery's `Convert_Slice_string_To_bool`: everything is true but absence, `false` and `0`. */
function isTrue(value: string | null): boolean {
  return value !== null && !['false', '0'].includes(value.toLowerCase());
}
