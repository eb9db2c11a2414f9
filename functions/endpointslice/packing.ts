import type { Endpoint } from 'levelhook/function/kinds';
import { identityOf, isSameState } from '../lib/endpoint-slices.ts';

/** The fields of a slice that packing needs; an `EndpointSlice` has them. */
export interface Holder {
  readonly endpoints?: readonly Endpoint[] | null;
}

/** Changes to the slices of one group of ports. A slice in none of these stays as it is. */
export interface Packing<T extends Holder> {
  /** Each with all its new endpoints. */
  readonly update: readonly { readonly slice: T; readonly endpoints: readonly Endpoint[] }[];
  readonly create: readonly (readonly Endpoint[])[];
  readonly delete: readonly T[];
}

export interface PackingOptions<T> {
  /** Endpoints in a slice, at most. */
  readonly max: number;
  /** Whether the slice is written anyway, for its labels. */
  readonly mustWrite: (slice: T) => boolean;
}

/**
 * Puts endpoints into slices with few writes, as kube-controller-manager does
 * (k8s.io/endpointslice, `reconcileByPortMapping`): an endpoint stays in its slice; a new one goes to a slice that is
 * written anyway, the fullest first; the rest goes to the one untouched slice that it fills best, or to new slices.
 */
export function packEndpoints<T extends Holder>(
  slices: readonly T[],
  wanted: readonly Endpoint[],
  { max, mustWrite }: PackingOptions<T>,
): Packing<T> {
  const left = new Map(wanted.map((endpoint) => [identityOf(endpoint), endpoint]));
  const emptied: T[] = [];
  const untouched: { slice: T; endpoints: Endpoint[] }[] = [];
  const written: { slice: T; endpoints: Endpoint[] }[] = [];
  for (const slice of slices) {
    const kept = keep(slice, left);
    if (kept.changed && kept.endpoints.length === 0) emptied.push(slice);
    else if (kept.changed || mustWrite(slice)) written.push({ slice, endpoints: kept.endpoints });
    else untouched.push({ slice, endpoints: kept.endpoints });
  }

  const others = [...left.values()];
  const fill = (endpoints: Endpoint[]): Endpoint[] => {
    endpoints.push(...others.splice(0, Math.max(0, max - endpoints.length)));
    return endpoints;
  };
  for (const { endpoints } of written.toSorted((a, b) => b.endpoints.length - a.endpoints.length)) fill(endpoints);
  const create: Endpoint[][] = [];
  while (others.length > 0) {
    const best = others.length < max ? bestFit(untouched, others.length, max) : undefined;
    if (best) {
      fill(best.endpoints);
      written.push(best);
    } else create.push(fill([]));
  }
  return { update: written, create, delete: emptied };
}

/** The endpoints that stay in a slice, in their new state. They are removed from `left`. */
function keep({ endpoints }: Holder, left: Map<string, Endpoint>): { endpoints: Endpoint[]; changed: boolean } {
  const kept: Endpoint[] = [];
  let changed = false;
  for (const endpoint of endpoints ?? []) {
    const identity = identityOf(endpoint);
    const next = left.get(identity);
    left.delete(identity);
    const isSame = next !== undefined && isSameState(endpoint, next);
    changed ||= !isSame;
    // An unchanged endpoint keeps its hints, which are checked later.
    if (next) kept.push(isSame ? endpoint : next);
  }
  return { endpoints: kept, changed };
}

/** The slice that would have the fewest free places. */
function bestFit<T extends { endpoints: Endpoint[] }>(all: readonly T[], count: number, max: number): T | undefined {
  return all
    .filter(({ endpoints }) => endpoints.length + count <= max)
    .reduce<T | undefined>(
      (best, each) => (best && best.endpoints.length >= each.endpoints.length ? best : each),
      undefined,
    );
}
