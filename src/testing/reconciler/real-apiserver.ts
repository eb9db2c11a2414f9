import { type KubernetesObject, resource, systemClock } from '../../core/index.ts';
import type { ApiTransport } from '../../function/api-transport.ts';
import { ApiWriter } from '../../function/api-writer.ts';
import type { CustomResourceDefinition } from './definitions.ts';
import { TestApiserver } from './test-apiserver.ts';

const DEFINITION = resource<KubernetesObject & { spec: object }>(
  'apiextensions.k8s.io/v1',
  'CustomResourceDefinition',
  { namespaced: false },
);
const DEFINE_MS = 30_000;

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

  /**
   * Applies definitions, and waits until the apiserver serves their kinds, as envtest's InstallCRDs does.
   * @throws ApiError when the apiserver refuses one.
   */
  async define(definitions: readonly CustomResourceDefinition[]): Promise<void> {
    const run = { signal: AbortSignal.timeout(DEFINE_MS), deadlineMs: systemClock.now() + DEFINE_MS };
    const api = new ApiWriter(this.direct, run);
    for (const { metadata, spec } of definitions) {
      await api.apply(DEFINITION, { metadata, spec }, { fieldManager: 'levelhook-testing', force: true });
    }
    for (const { spec } of definitions) {
      for (const { name } of spec.versions.filter(({ served }) => served)) {
        const path = `/apis/${spec.group}/${name}/${spec.names.plural}`;
        while ((await this.direct({ method: 'GET', path: `${path}?limit=1`, signal: run.signal })).status === 404) {
          await systemClock.sleep(50, run.signal);
          run.signal.throwIfAborted();
        }
      }
    }
  }

  async #connect(): Promise<ApiTransport> {
    // Loaded on demand: client-node takes longer than all tests in memory together.
    const { kubeConfigTransport } = await import('../../function/node/client-node-transport.ts');
    return kubeConfigTransport(this.#kubeconfig);
  }
}
