import { parseJson } from '../../core/index.ts';
import type { ApiTransportRequest } from '../../function/api-transport.ts';

/** Kubernetes' verbs, as in RBAC rules. Only `apply` is a `patch` in RBAC. */
export type Verb = 'get' | 'list' | 'create' | 'update' | 'patch' | 'apply' | 'delete' | 'deletecollection';

/** One request to the apiserver. */
export interface ApiserverRequest {
  readonly verb: Verb;
  readonly apiVersion: string;
  /** The plural, as in its path: `configmaps`. For discovery, where `apiVersion` is '', it is `api` or `apis`. */
  readonly resource: string;
  /** `status`, `scale`, `eviction`, `finalize`. */
  readonly subresource?: string;
  readonly namespace?: string;
  /** Absent for a list, a deletecollection, and a create that leaves the name to the apiserver. */
  readonly name?: string;
  /** Decoded. Absent when there is none. */
  readonly body?: unknown;
}

export interface ParsedRequest extends ApiserverRequest {
  readonly contentType: string;
  readonly query: URLSearchParams;
  /** Whether the answer must have only the metadata of its objects. */
  readonly metadataOnly: boolean;
}

const VERBS = { POST: 'create', PUT: 'update', PATCH: 'patch', GET: 'get', DELETE: 'delete' } as const;
export const APPLY = 'application/apply-patch+yaml';

/** @throws TypeError for a path that belongs to no resource: `/version`, `/healthz` */
export function parseRequest(request: ApiTransportRequest): ParsedRequest {
  const { method, path, body, contentType = '', accept = '' } = request;
  const { pathname, searchParams: query } = new URL(path, 'http://apiserver');
  const more = { contentType, query, metadataOnly: accept.includes('as=PartialObjectMetadata') };
  if (method === 'GET' && (pathname === '/api' || pathname === '/apis')) {
    return { verb: 'get', apiVersion: '', resource: pathname.slice(1), ...more };
  }
  const found = /^[/](?:api[/](v1)|apis[/]([^/]+[/][^/]+))[/](.+)$/.exec(pathname);
  if (!found) throw new TypeError(`${pathname} is not the path of a resource`);
  // The apiserver ignores a slash at the end.
  const parts = (found[3] ?? '').replace(/\/+$/, '').split('/').map(decodeURIComponent);
  // `namespaces/x/status` belongs to a namespace, `namespaces/x/pods` is in one.
  const isOfNamespace = parts.length < 3 || ['status', 'finalize'].includes(parts[2] ?? '');
  const namespace = parts[0] === 'namespaces' && !isOfNamespace ? parts.splice(0, 2)[1] : undefined;
  const [resource = '', given, subresource] = parts;
  const value: unknown = body === undefined ? undefined : parseJson(body);
  const name = given ?? (method === 'POST' ? nameIn(value) : undefined);
  const verb = contentType === APPLY ? 'apply' : VERBS[method];
  const plain = {
    verb: given !== undefined ? verb : verb === 'get' ? 'list' : verb === 'delete' ? 'deletecollection' : verb,
    apiVersion: found[1] ?? found[2] ?? '',
    resource,
    ...(subresource === undefined ? {} : { subresource }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(value === undefined ? {} : { body: value }),
  } as const;
  return { ...plain, ...more };
}

function nameIn(body: unknown): string | undefined {
  return (body as { metadata?: { name?: string } } | undefined)?.metadata?.name;
}
