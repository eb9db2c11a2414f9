import type { ApiTransport } from '../../function/api-transport.ts';
import { kubeConfigTransport } from '../../function/node/client-node-transport.ts';
import { TestApiserver } from './test-apiserver.ts';

/** A real apiserver, for tests that take seconds: `startControlPlane` starts one, or a cluster of your own. */
export class RealApiserver extends TestApiserver {
  readonly direct: ApiTransport;

  /** @param kubeconfig a file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account. Nothing is read before the first request. */
  constructor(kubeconfig?: string) {
    super();
    this.direct = kubeConfigTransport(kubeconfig);
  }
}
