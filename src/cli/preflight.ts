import { existsSync } from 'node:fs';
import { messageOf, UserError } from '../core/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { clusterIdentity } from '../ground/apiserver/discovery.ts';
import { checkListen } from '../ground/listener.ts';
import { type GatewayConfig, readConfig } from '../gateway/index.ts';

/**
 * Checks the settings, the port and the kubeconfig before `levelhook start` starts anything, so that nothing has to be
 * stopped again. @throws UserError with the first mistake.
 */
export async function preflight(options: { port: number; kubeconfig: string | undefined }): Promise<void> {
  const { port, kubeconfig } = options;
  const config = readConfig(process.env, { port });
  await checkListen({ host: config.host, port }, { remedy: 'with --port' });
  if (kubeconfig !== undefined) await checkCluster(kubeconfig, config);
}

async function checkCluster(kubeconfig: string, { clusterId }: GatewayConfig): Promise<void> {
  if (!existsSync(kubeconfig)) {
    throw new UserError(`The kubeconfig ${kubeconfig} does not exist: check --kubeconfig.`);
  }
  const credentials = await loadCredentials(kubeconfig);
  try {
    const client = new ApiClient(credentials);
    await (clusterId === undefined ? clusterIdentity(client) : client.json({ path: '/api' }));
  } catch (error) {
    throw new UserError(
      `The apiserver at ${credentials.server} cannot be used (${messageOf(error)}): check the kubeconfig.`,
    );
  } finally {
    await credentials.close();
  }
}
