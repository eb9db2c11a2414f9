import { ApiError, formatKind, type KubernetesObject, resourcePath } from '../core/index.ts';
import type { Description } from '../contract/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { ReconcileFunction } from '../gateway/registration/reconcile-function.ts';
import type { Ground } from './bring-up.ts';
import { builtInFor } from './replaced-controllers.ts';

/**
 * A line for each controller of the project that a cluster which exists already has, built in or deployed: both would
 * work on the same objects. None for a control plane of our own.
 */
export async function sameJob(
  { cluster, kubeconfig }: Pick<Ground, 'cluster' | 'kubeconfig'>,
  described: Readonly<Record<string, Description>>,
): Promise<string[]> {
  if (cluster === undefined) return [];
  const deployed = await namesOfDeployed(kubeconfig);
  return Object.values(described).flatMap((each) => {
    const kind = formatKind(each.for);
    const builtIn = builtInFor(kind);
    return [
      ...(builtIn === undefined ? [] : [`${each.name}: the ${builtIn} of ${cluster} works on each ${kind}, too`]),
      ...deployed
        .filter(({ name }) => name === each.name)
        .map(
          ({ namespace }) => `${each.name}: the ReconcileFunction ${namespace}/${each.name} of ${cluster} runs it, too`,
        ),
    ];
  });
}

/** None without a gateway in the cluster, or without the right to list them. */
async function namesOfDeployed(kubeconfig: string): Promise<{ namespace: string; name: string }[]> {
  const credentials = await loadCredentials(kubeconfig);
  try {
    const list = await new ApiClient(credentials).json<{ items: readonly KubernetesObject[] }>({
      path: resourcePath(ReconcileFunction),
    });
    return list.items.map(({ metadata: { namespace = '', name } }) => ({ namespace, name }));
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  } finally {
    await credentials.close();
  }
}
