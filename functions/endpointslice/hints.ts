import { equal } from 'levelhook/function';
import type { Endpoint, EndpointHints } from 'levelhook/function/kinds';

/** Values of a Service's `trafficDistribution` that keep traffic near. Other values need no hints. */
const NEAR = new Set(['PreferClose', 'PreferSameZone', 'PreferSameNode']);

/**
 * An endpoint with the hints for the Service's `trafficDistribution` (k8s.io/endpointslice, `trafficdist`): its own
 * zone, and for PreferSameNode its own node too. Returns the same endpoint when its hints are right. If the endpoint is
 * not ready, its hints do not matter and stay.
 */
export function withHints(endpoint: Endpoint, distribution: string | undefined): Endpoint {
  const { hints, ...bare } = endpoint;
  if (distribution === undefined || !NEAR.has(distribution)) return hints ? bare : endpoint;
  if (!endpoint.conditions?.ready) return endpoint;
  const wanted = hintsFor(endpoint, distribution === 'PreferSameNode');
  if (equal(wanted, hints)) return endpoint;
  return wanted ? { ...bare, hints: wanted } : bare;
}

function hintsFor({ zone, nodeName }: Endpoint, withNode: boolean): EndpointHints | undefined {
  const forNodes = withNode && nodeName !== undefined ? [{ name: nodeName }] : undefined;
  if (zone === undefined && !forNodes) return undefined;
  return { ...(zone === undefined ? {} : { forZones: [{ name: zone }] }), ...(forNodes ? { forNodes } : {}) };
}
