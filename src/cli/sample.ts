import { ApiError, resource, resourcePath } from '../core/index.ts';
import { ApiClient } from '../gateway/apiserver/api-client.ts';
import { loadCredentials } from '../gateway/apiserver/credentials.ts';

const REPLICA_SET = resource('apps/v1', 'ReplicaSet');

/** A ReplicaSet of three in the namespace default. */
const SAMPLE = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { name: 'hello', namespace: 'default' },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'hello' } },
    template: {
      metadata: { labels: { app: 'hello' } },
      spec: { containers: [{ name: 'hello', image: 'registry.k8s.io/pause:3.10' }] },
    },
  },
};

/** Creates the sample; one that is there already stays as it is. */
export async function createSample(kubeconfig: string): Promise<void> {
  const credentials = await loadCredentials(kubeconfig);
  try {
    const path = resourcePath(REPLICA_SET, { namespace: 'default' });
    await new ApiClient(credentials).json({ method: 'POST', path, body: SAMPLE });
  } catch (error) {
    if (!(error instanceof ApiError) || error.reason !== 'AlreadyExists') throw error;
  } finally {
    await credentials.close();
  }
}
