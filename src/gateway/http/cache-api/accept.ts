import { notAcceptable } from './kubernetes-status.ts';

/** The form that the client wants for an answer. */
export type Form = 'object' | 'metadata' | 'table';

/**
 * Chooses among the forms that a client names in `Accept`; their order counts, as in the apiserver. Only JSON is
 * served: a client that prefers protobuf names JSON after it, and a client that accepts nothing else gets 406.
 * @throws StatusError 406
 */
export function negotiate(accept: string | null): Form {
  if (accept === null || accept.trim() === '') return 'object';
  for (const { as, group, version } of clausesOf(accept)) {
    if (as === undefined) return 'object';
    if (group !== 'meta.k8s.io' || version !== 'v1') continue;
    if (as === 'Table') return 'table';
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') return 'metadata';
  }
  throw notAcceptable();
}

/** Whether a client would rather have all of discovery in one document, which `/api` and `/apis` then are. */
export function wantsAggregated(accept: string | null): boolean {
  for (const { as, group, version } of clausesOf(accept ?? '')) {
    if (as === undefined) return false;
    if (as === 'APIGroupDiscoveryList' && group === 'apidiscovery.k8s.io' && version === 'v2') return true;
  }
  return false;
}

interface Clause {
  /** The kind into which the answer is to be converted; undefined: none. */
  readonly as: string | undefined;
  readonly group: string | undefined;
  readonly version: string | undefined;
}

/** The JSON forms that a client accepts, in its order. */
function clausesOf(accept: string): Clause[] {
  return accept.split(',').flatMap((clause) => {
    const [type = '', ...parameters] = clause.split(';').map((part) => part.trim());
    if (!['application/json', 'application/*', '*/*'].includes(type.toLowerCase())) return [];
    const given = new Map(parameters.map((text) => text.split('=', 2).map((part) => part.trim()) as [string, string]));
    return given.has('stream') ? [] : [{ as: given.get('as'), group: given.get('g'), version: given.get('v') }];
  });
}
