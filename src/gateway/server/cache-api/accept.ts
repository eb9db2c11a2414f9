import { notAcceptable } from './kubernetes-status.ts';

/** In which form an answer is wanted. */
export type Form = 'object' | 'metadata' | 'table';

/**
 * Chooses among the forms that a client names in `Accept`, its order counting as the apiserver has it. JSON is all there
 * is: a client that would rather have protobuf names JSON after it, and one that takes nothing else gets 406.
 * @throws Refusal 406
 */
export function negotiate(accept: string | null): Form {
  if (accept === null || accept.trim() === '') return 'object';
  for (const clause of accept.split(',')) {
    const [type = '', ...parameters] = clause.split(';').map((part) => part.trim());
    if (!['application/json', 'application/*', '*/*'].includes(type.toLowerCase())) continue;
    const given = new Map(parameters.map((text) => text.split('=', 2).map((part) => part.trim()) as [string, string]));
    if (given.has('stream')) continue;
    const as = given.get('as');
    if (as === undefined) return 'object';
    if (given.get('g') !== 'meta.k8s.io' || given.get('v') !== 'v1') continue;
    if (as === 'Table') return 'table';
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') return 'metadata';
  }
  throw notAcceptable();
}
