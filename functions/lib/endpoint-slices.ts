import {
  and,
  ApiError,
  type ApiWriter,
  cel,
  equal,
  generationChanged,
  keyOf,
  labelChanged,
  labelsMatch,
  type NewObject,
  or,
  type WatchedSource,
} from 'levelhook/function';
import { type DiscoveryV1EndpointPort, type Endpoint, EndpointSlice } from 'levelhook/function/kinds';
import { failuresOf, inParallel } from './in-parallel.ts';
import { isNamespaceTerminating } from './refusals.ts';

/** Names the Service, or the Endpoints object, of a slice. */
export const SERVICE_NAME = 'kubernetes.io/service-name';
/** Names the controller that a slice belongs to. */
export const MANAGED_BY = 'endpointslice.kubernetes.io/managed-by';
/** An election keeps its record in this annotation of Endpoints. Such Endpoints have no Service and no addresses. */
export const LEADER_RECORD = 'control-plane.alpha.kubernetes.io/leader';
export const HEADLESS = 'service.kubernetes.io/headless';

/** Lists find slices by the name of their Service. */
export const slicesByService = { resource: EndpointSlice, index: `label:${SERVICE_NAME}` } as const;

/**
 * Slices of this controller, and slices that are given to it or taken from it, wake their Service. Their generation
 * counts changes of labels too, and no other ones of the metadata.
 */
export function slicesManagedBy(manager: string): WatchedSource {
  const isManaged = labelsMatch({ matchLabels: { [MANAGED_BY]: manager } });
  return {
    resource: EndpointSlice,
    map: { by: 'label', label: SERVICE_NAME },
    predicate: or(and(isManaged, generationChanged), and(labelChanged, cel('oldObject != null'))),
  };
}

/** Sorted ports as text: equal texts mean the same group of slices. */
export function portsKey(ports: readonly DiscoveryV1EndpointPort[] = []): string {
  const texts = ports.map(({ name = '', protocol = 'TCP', port, appProtocol }) =>
    JSON.stringify([name, protocol, port, appProtocol]),
  );
  return texts.toSorted().join();
}

/**
 * Two endpoints with one identity are two states of the same endpoint: with the same addresses, host name and object.
 */
export function identityOf({ addresses, hostname = '', targetRef }: Endpoint): string {
  return JSON.stringify([addresses.toSorted(), hostname, targetRef?.namespace ?? '', targetRef?.name ?? '']);
}

/** Whether two states of an endpoint are equal, apart from hints. */
export function isSameState(a: Endpoint, b: Endpoint): boolean {
  return equal(stateOf(a), stateOf(b));
}

function stateOf({ nodeName, zone, conditions = {}, targetRef }: Endpoint): object {
  const { ready, serving, terminating } = conditions;
  const { resourceVersion: _, ...target } = targetRef ?? {};
  return { nodeName, zone, ready, serving, terminating, target: targetRef && target };
}

/** The writes that correct the slices. */
export interface SliceChanges {
  readonly create: readonly NewObject<EndpointSlice>[];
  readonly update: readonly EndpointSlice[];
  readonly delete: readonly EndpointSlice[];
}

export const NO_CHANGES: SliceChanges = { create: [], update: [], delete: [] };

export function joined(all: readonly SliceChanges[]): SliceChanges {
  return {
    create: all.flatMap((each) => each.create),
    update: all.flatMap((each) => each.update),
    delete: all.flatMap((each) => each.delete),
  };
}

const WRITES_AT_A_TIME = 10;

/**
 * Creates, updates and deletes, in this order, so that an endpoint that moves is never without a slice. Throws the
 * first failure after all writes of its kind, in the words of kube-controller-manager. In a namespace that is being
 * deleted nothing can be created.
 * @param owner of the slices: `Service test/web`
 */
export async function writeSlices(owner: string, changes: SliceChanges, api: ApiWriter): Promise<void> {
  const all = async <T>(
    items: readonly T[],
    failed: (item: T) => string,
    write: (item: T) => Promise<unknown>,
  ): Promise<void> => {
    const outcomes = await inParallel(items, WRITES_AT_A_TIME, (item) =>
      write(item).catch((cause: unknown) => {
        throw new Error(failed(item), { cause });
      }),
    );
    const [failure] = failuresOf(outcomes);
    if (failure) throw failure;
  };
  const named = (verb: string) => (slice: EndpointSlice) =>
    `failed to ${verb} ${slice.metadata.name} EndpointSlice for ${owner}`;
  await all(
    changes.create,
    () => `failed to create EndpointSlice for ${owner}`,
    (slice) =>
      api.create(EndpointSlice, slice).catch((error: unknown) => {
        if (!isNamespaceTerminating(error)) throw error;
      }),
  );
  await all(changes.update, named('update'), (slice) => api.replace(EndpointSlice, slice));
  await all(changes.delete, named('delete'), (slice) =>
    api.delete(EndpointSlice, keyOf(slice)).catch((error: unknown) => {
      if (!(error instanceof ApiError && error.code === 404)) throw error;
    }),
  );
}
