import {
  ApiError,
  type Context,
  controller,
  EventRecorder,
  generationChanged,
  messageOf,
  type ReconcileRequest,
} from 'levelhook/function';
import { Endpoints, Service } from 'levelhook/function/kinds';
import { LEADER_RECORD } from '../lib/endpoint-slices.ts';
import { isNamespaceTerminating } from '../lib/refusals.ts';
import { podLabels, podsOfServices, selectedPods, selectorOf, oncePerSecond } from '../lib/service-pods.ts';
import { MANAGED_BY, MANAGER, planEndpoints } from './plan.ts';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: MANAGER });

/** Keeps an Endpoints object for each Service with a selector, for clients that do not know EndpointSlices. */
export const endpoints = controller({
  name: 'endpoints',
  for: Service,
  watches: [
    podsOfServices,
    // Endpoints have no generation, so only adds and deletes wake the Service of the same name.
    { resource: Endpoints, map: { by: 'field', path: 'metadata.name' }, predicate: generationChanged },
  ],
  writes: [{ resource: Endpoints, verbs: ['create', 'update', 'delete'] }, recorder.writes],
  indexes: [podLabels],
  concurrency: 10,
  timeoutSeconds: 15,
  queue: oncePerSecond,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const [service, current] = await Promise.all([cache.get(Service, request), cache.get(Endpoints, request)]);
  if (!service) {
    if (current && belongedToService(current, request)) await deleteEndpoints(current, context);
    return;
  }
  const selector = selectorOf(service);
  if (!selector) return;

  const next = planEndpoints(service, await selectedPods(service, selector, cache), current);
  if (!next) return;
  try {
    if ('apiVersion' in next) await api.replace(Endpoints, next);
    else await api.create(Endpoints, next);
  } catch (error) {
    if (isNamespaceTerminating(error)) return;
    const { namespace, name } = service.metadata;
    const [reason, message] = current
      ? ['FailedToUpdateEndpoint', `Failed to update endpoint ${namespace}/${name}`]
      : ['FailedToCreateEndpoint', `Failed to create endpoint for service ${namespace}/${name}`];
    recorder.about(Endpoints, current ?? notYet(service), context).warning(reason, `${message}: ${messageOf(error)}`);
    throw error;
  }
});

/**
 * Endpoints without a Service may belong to a user who created them before the Service. They are deleted only if this
 * controller wrote them, or if the Service's deletion woke the key.
 */
function belongedToService({ metadata }: Endpoints, { namespace, name, reasons }: ReconcileRequest): boolean {
  const isWritten = metadata.labels?.[MANAGED_BY] === MANAGER;
  if (isWritten && metadata.annotations?.[LEADER_RECORD] === undefined) return true;
  return reasons.some(({ type, object }) => type === 'deleted' && object === `v1/Service ${namespace}/${name}`);
}

async function deleteEndpoints({ metadata }: Endpoints, { api }: Context): Promise<void> {
  const { namespace, name, uid } = metadata;
  try {
    await api.delete(Endpoints, { ...(namespace ? { namespace } : {}), name }, { preconditions: { uid } });
  } catch (error) {
    if (!(error instanceof ApiError && error.code === 404)) throw error;
  }
}

/** The subject of an Event about Endpoints that could not be created. */
function notYet({ metadata: { namespace, name } }: Service): Endpoints {
  const metadata = { ...(namespace ? { namespace } : {}), name, uid: '', resourceVersion: '' };
  return { apiVersion: 'v1', kind: 'Endpoints', metadata };
}
