import { equal, type NewObject } from 'levelhook/function';
import type { EndpointAddress, Endpoints, EndpointSubset, Pod, Service } from 'levelhook/function/kinds';
import { HEADLESS } from '../lib/endpoint-slices.ts';
import { earliestReadiness, isHeadless, withTriggerTime } from '../lib/service-pods.ts';
import { packSubsets, servedPorts } from '../lib/subsets.ts';
import { countOf, MAX_ADDRESSES, subsetsOf, truncated } from './subsets.ts';

/** kube-controller-manager's own label for Endpoints that a controller writes. */
export const MANAGED_BY = 'endpoints.kubernetes.io/managed-by';
export const MANAGER = 'endpoint-controller';
const OVER_CAPACITY = 'endpoints.kubernetes.io/over-capacity';

/** The right Endpoints of a Service; undefined if the current ones are right. */
export function planEndpoints(
  service: Service,
  pods: readonly Pod[],
  current: Endpoints | undefined,
): NewObject<Endpoints> | Endpoints | undefined {
  const wanted = subsetsOf(service, pods);
  const subsets = truncated(wanted);
  const isOver = countOf(wanted) > MAX_ADDRESSES;
  const labels = labelsOf(service);
  const before = current?.metadata.annotations ?? {};
  if (
    current &&
    equal(comparable(current.subsets), comparable(subsets)) &&
    hasLabels(current, labels) &&
    (before[OVER_CAPACITY] !== undefined) === isOver
  ) {
    return undefined;
  }
  const { [OVER_CAPACITY]: _, ...others } = before;
  const time = current ? earliestReadiness(changedPods(pods, current.subsets, subsets)) : creationOf(service);
  const annotations = withTriggerTime(isOver ? { ...others, [OVER_CAPACITY]: 'truncated' } : others, time);
  if (current) return { ...current, metadata: { ...current.metadata, labels, annotations }, subsets };
  const { name, namespace } = service.metadata;
  return { metadata: { ...(namespace ? { namespace } : {}), name, labels, annotations }, subsets };
}

/**
 * Subsets in one form and order, without the versions of their pods, which alone are no reason to write: as
 * `semanticIgnoreResourceVersion` of kube-controller-manager.
 */
function comparable(subsets: readonly EndpointSubset[] | undefined): EndpointSubset[] {
  return packSubsets(servedPorts(subsets).map((each) => ({ ...each, address: withoutVersion(each.address) })));
}

function withoutVersion(address: EndpointAddress): EndpointAddress {
  if (!address.targetRef) return address;
  const { resourceVersion: _, ...targetRef } = address.targetRef;
  return { ...address, targetRef };
}

const creationOf = ({ metadata }: Service): string | undefined => metadata.creationTimestamp;

function labelsOf(service: Service): Record<string, string> {
  const { [HEADLESS]: _, ...labels } = service.metadata.labels ?? {};
  return { ...labels, ...(isHeadless(service) ? { [HEADLESS]: '' } : {}), [MANAGED_BY]: MANAGER };
}

/** Ignores the label of headless Services, which alone is no reason to write. */
function hasLabels({ metadata }: Endpoints, labels: Readonly<Record<string, string>>): boolean {
  const { [HEADLESS]: _, ...has } = metadata.labels ?? {};
  const { [HEADLESS]: __, ...wanted } = labels;
  return equal(has, wanted);
}

/** Pods that are new in the subsets, or whose readiness has changed. */
function changedPods(
  pods: readonly Pod[],
  before: readonly EndpointSubset[] = [],
  after: readonly EndpointSubset[],
): Pod[] {
  const [old, next] = [readinessByUid(before), readinessByUid(after)];
  return pods.filter(({ metadata: { uid } }) => next.has(uid) && next.get(uid) !== old.get(uid));
}

function readinessByUid(subsets: readonly EndpointSubset[]): Map<string | undefined, boolean> {
  const of = (addresses: readonly EndpointAddress[] = [], ready: boolean) =>
    addresses.map(({ targetRef }) => [targetRef?.uid, ready] as const);
  return new Map(
    subsets.flatMap(({ addresses, notReadyAddresses }) => [...of(addresses, true), ...of(notReadyAddresses, false)]),
  );
}
