import type { CacheReader, WatchedSource } from 'levelhook/function';
import { Pod, type Service, type ServicePort } from 'levelhook/function/kinds';

// What the controllers of EndpointSlices and of Endpoints have in common: which pods stand behind a Service, and how.

/**
 * The labels by which a Service selects its pods. Undefined for one that selects none: its endpoints are made by hand,
 * or it is a name for something outside.
 */
export function selectorOf({ spec }: Service): Record<string, string> | undefined {
  return spec?.type === 'ExternalName' ? undefined : spec?.selector;
}

/** Lists look for the pods with one label of the selector. */
export const podLabels = { resource: Pod, index: 'labels' } as const;

/** The pods that the selector selects, in the order of their names. */
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
 * Pods wake the Services that select them, or did before a change of their labels. Without a predicate: an expression
 * over addresses, readiness and deletion takes 0.17 ms of processor time for each change, and a burst of pods used up
 * what the gateway gives a controller. A run that finds nothing to do writes nothing.
 */
export const podsOfServices: WatchedSource = { resource: Pod, map: { by: 'selector', path: 'spec.selector' } };

/**
 * A lone change of a pod is published at once. The Services of pods that change all the time are written once a second,
 * as by the built-in controllers, which look at a Service again after a second when its own writes have not come back
 * from the watch yet (pkg/controller/endpointslice, `defaultSyncBackOff`).
 */
export const oncePerSecond = { debounce: { seconds: 1, maxSeconds: 1, leading: true } } as const;

/** Has an address and has not ended: a pod that is being deleted still counts. */
export function hasEndpoint({ status = {} }: Pod): boolean {
  if (status.phase === 'Succeeded' || status.phase === 'Failed') return false;
  return Boolean(status.podIP) || (status.podIPs ?? []).length > 0;
}

export function isReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True';
}

/** Since when the pod is ready, or is not, as its kubelet wrote it. */
export function readinessTime(pod: Pod): string | undefined {
  return readyCondition(pod)?.lastTransitionTime ?? undefined;
}

function readyCondition({ status }: Pod) {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}

/** The name in the DNS that the pod has under the Service, if it asks for one. */
export function hostnameOf({ spec }: Pod, service: Service): string | undefined {
  return spec?.hostname && spec.subdomain === service.metadata.name ? spec.hostname : undefined;
}

/** Has no address of its own: clients get those of its pods. */
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
 * The annotation `endpoints.kubernetes.io/last-change-trigger-time`: when the oldest change happened that a write
 * publishes.
 */
export const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';

/** The earliest of the times at which these pods became ready, or not ready. */
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
