import { type ApiWriter, type DiscoveredResource, type KubernetesObject, resource } from 'levelhook/function';
import { deleteKind, type Leftover, partsOf } from './kind.ts';

interface Pod extends KubernetesObject {
  /** A bigint beyond 2^53. */
  spec?: { terminationGracePeriodSeconds?: number | bigint };
  status?: { phase?: string };
}

const Pod = resource<Pod>('v1', 'Pod');

export function isPods(each: DiscoveredResource): boolean {
  return each.plural === 'pods' && partsOf(each).group === '';
}

/**
 * Deletes the pods of a namespace. Running pods have their grace period, which counts from the deletion of the
 * Namespace. After it there is no estimate any more.
 */
export async function deletePods(
  pods: DiscoveredResource,
  namespace: string,
  deletedAtMs: number,
  api: ApiWriter,
): Promise<Leftover> {
  const nothing = { resource: pods, count: 0, finalizers: new Map<string, number>(), estimateSeconds: 0 };
  let graceSeconds: number;
  try {
    const { items } = await api.list(Pod, { namespace });
    if (items.length === 0) return nothing;
    graceSeconds = longestGrace(items);
  } catch (error) {
    return { ...nothing, error: error instanceof Error ? error : new Error(String(error)) };
  }
  const isOver = Date.now() - deletedAtMs >= graceSeconds * 1000;
  return deleteKind(pods, namespace, api, isOver ? 0 : graceSeconds);
}

/** In seconds, of the pods that have not ended. */
export function longestGrace(pods: readonly Pod[]): number {
  const running = pods.filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed');
  return Math.max(0, ...running.map(({ spec }) => Number(spec?.terminationGracePeriodSeconds ?? 0)));
}
