import { type RequestInfo, requestInfo, type ResourceRequest } from '../cache-api/request-info.ts';
import {
  badRequest,
  forbiddenPath,
  methodNotAllowed,
  noSuchResource,
  watchNotSupported,
} from '../cache-api/kubernetes-status.ts';

/** A request that is passed on to the apiserver, without its body. */
export interface ProxiedRequest {
  /** Undefined for discovery. */
  readonly resource: ResourceRequest | undefined;
  /** The apiserver's verb for the request; `discover` for discovery. */
  readonly verb: string;
  readonly isWrite: boolean;
  /** Encoded anew, so that the apiserver reads the same path that was checked here. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Whether the query asks for a dry run. */
  readonly isDryRun: boolean;
}

const READS = ['get', 'list'];
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'];
/** Others open connections to a container or a node, or hand out tokens. */
const SUBRESOURCES = new Set(['status', 'scale', 'eviction', 'finalize']);

const READ_PARAMETERS = [
  'continue',
  'fieldSelector',
  'labelSelector',
  'limit',
  'resourceVersion',
  'resourceVersionMatch',
];
const WRITE_PARAMETERS = [
  ...READ_PARAMETERS,
  'dryRun',
  'fieldManager',
  'fieldValidation',
  'force',
  'gracePeriodSeconds',
  'ignoreStoreReadErrorWithClusterBreakingPotential',
  'orphanDependents',
  'propagationPolicy',
];

/**
 * Decides which requests of a function are passed on, and how.
 * @param path as it came, still encoded.
 * @throws StatusError 400, 403, 404, 405
 */
export function proxiedRequest(method: string, path: string, given: URLSearchParams, user: string): ProxiedRequest {
  const parts = partsOf(path);
  const decoded = `/${parts.join('/')}`;
  const info = requestInfo(method, decoded, given);
  const verb = checkedVerb(info, method, { user, path: decoded });
  const isWrite = WRITES.includes(verb);
  const query = new URLSearchParams();
  for (const name of isWrite ? WRITE_PARAMETERS : READ_PARAMETERS) {
    for (const value of given.getAll(name)) query.append(name, value);
  }
  return {
    resource: info.kind === 'resource' ? info : undefined,
    verb,
    isWrite,
    path: `/${parts.map(encodeURIComponent).join('/')}`,
    query,
    isDryRun: query.has('dryRun'),
  };
}

function partsOf(path: string): string[] {
  let parts: string[];
  try {
    // Decoded as a whole: an encoded slash separates here, as for the apiserver.
    parts = decodeURIComponent(path)
      .replace(/^\/+|\/+$/g, '')
      .split('/');
  } catch {
    throw badRequest('the path is not readable');
  }
  if (parts.some((part) => part === '.' || part === '..' || /\p{Cc}/u.test(part))) throw noSuchResource();
  return parts;
}

function checkedVerb(info: RequestInfo, method: string, of: { user: string; path: string }): string {
  if (info.kind === 'other') throw forbiddenPath(of.user, of.path);
  if (info.kind === 'document') {
    if (method !== 'GET') throw methodNotAllowed();
    return 'discover';
  }
  const { subresource, tooLong, verb } = info;
  if (tooLong) throw noSuchResource();
  if (verb === 'watch') throw watchNotSupported(info);
  const isKnown = method !== 'HEAD' && [...READS, ...WRITES].includes(verb);
  if (!isKnown || (subresource !== undefined && !SUBRESOURCES.has(subresource))) throw methodNotAllowed();
  return verb;
}
