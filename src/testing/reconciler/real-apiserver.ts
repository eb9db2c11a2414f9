import type { ApiTransport } from '../../function/api-transport.ts';
import { TestApiserver } from './test-apiserver.ts';

/** A real apiserver, for tests that take seconds: started by `startControlPlane`, or of a cluster of your own. */
export class RealApiserver extends TestApiserver {
  readonly #kubeconfig: string | undefined;
  #transport: Promise<ApiTransport> | undefined;

  /**
   * @param kubeconfig a file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account. Nothing is read before
   *   the first request.
   */
  constructor(kubeconfig?: string) {
    super();
    this.#kubeconfig = kubeconfig;
  }

  readonly direct: ApiTransport = async (request) => {
    this.#transport ??= this.#connect();
    return (await this.#transport)(request);
  };

  async #connect(): Promise<ApiTransport> {
    // Loaded on demand: client-node takes longer than all tests in memory together.
    const { kubeConfigTransport } = await import('../../function/node/client-node-transport.ts');
    return kubeConfigTransport(this.#kubeconfig);
  }
}
