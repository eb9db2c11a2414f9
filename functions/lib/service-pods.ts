import type { CacheReader, WatchedSource } from 'levelhook/function';
import { Pod, type Service, type ServicePort } from 'levelhook/function/kinds';

// Shared by the controllers of EndpointSlices and of Endpoints: the pods behind a Service, and their ports.

/**
 * The labels that select a Service's pods. Undefined without a selector: then a person makes its endpoints, or it is a
 * name for something outside.
 */
export function selectorOf({ spec }: Service): Record<string, string> | undefined {
  return spec?.type === 'ExternalName' ? undefined : spec?.selector;
}

/** Lists find pods by one label of the selector. */
export const podLabels = { resource: Pod, index: 'labels' } as const;

/** The selected pods, in the order of their names. */
export async function selectedPods(
  { metadata }: Service,
  selector: Record<string, string>,
  cache: CacheReader,
): Promise<Pod[]> {
  const namespace = metadata.namespace ?? '';
  const { items } = await cache.list(Pod, { namespace, labelSelector: { matchLabels: selector }, index: 'labels' });
  return items;
}

/**
 * Pods wake the Services that select them, before or after a change of labels. There is no predicate: an expression
 * over addresses, readiness and deletion takes 0.17 ms of processor time for each change, and a burst of pods used up
 * the controller's share of the gateway. A run that finds nothing to do writes nothing.
 */
export const podsOfServices: WatchedSource = { resource: Pod, map: { by: 'selector', path: 'spec.selector' } };

/**
 * A lone change of a pod is published at once. Services whose pods change all the time are written once a second, as by
 * the built-in controllers, which check a Service again after a second when their own writes have not come back from
 * the watch yet (pkg/controller/endpointslice, `defaultSyncBackOff`).
 */
export const oncePerSecond = { debounce: { seconds: 1, maxSeconds: 1, leading: true } } as const;

/** Has an address and has not ended. A pod that is being deleted still counts. */
export function hasEndpoint({ status = {} }: Pod): boolean {
  if (status.phase === 'Succeeded' || status.phase === 'Failed') return false;
  return Boolean(status.podIP) || (status.podIPs ?? []).length > 0;
}

export function isReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True';
}

/** The time of the last change of the pod's readiness, as its kubelet wrote it. */
export function readinessTime(pod: Pod): string | undefined {
  return readyCondition(pod)?.lastTransitionTime ?? undefined;
}

function readyCondition({ status }: Pod) {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}

/** The pod's name in the DNS of the Service, if it has one. */
export function hostnameOf({ spec }: Pod, service: Service): string | undefined {
  return spec?.hostname && spec.subdomain === service.metadata.name ? spec.hostname : undefined;
}

/** Has no address of its own: clients get the addresses of its pods. */
export function isHeadless({ spec }: Service): boolean {
  return spec?.clusterIP === 'None' || !spec?.clusterIP;
}

/** The number of a Service's port in a pod, which may name it. Undefined when the pod has no port of that name. */
export function targetPortOf({ spec }: Pod, { targetPort, protocol, port }: ServicePort): number | undefined {
  if (typeof targetPort !== 'string') return targetPort ?? port;
  const sidecars = (spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const ports = [...(spec?.containers ?? []), ...sidecars].flatMap((container) => container.ports ?? []);
  return ports.find((each) => each.name === targetPort && each.protocol === protocol)?.containerPort;
}

/**
 * The annotation `endpoints.kubernetes.io/last-change-trigger-time`: the time of the oldest change that a write
 * publishes.
 */
export const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';

/** The earliest change of readiness among these pods. */
export function earliestReadiness(pods: readonly Pod[]): string | undefined {
  return pods.flatMap((pod) => readinessTime(pod) ?? []).toSorted()[0];
}

/** Annotations with this trigger time, or without one. */
export function withTriggerTime(
  annotations: Readonly<Record<string, string>> = {},
  time: string | undefined,
): Record<string, string> {
  const { [TRIGGER_TIME]: _, ...others } = annotations;
  return time === undefined ? others : { ...others, [TRIGGER_TIME]: time };
}
