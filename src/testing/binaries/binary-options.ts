import type { Environment } from '../process/environment.ts';

export interface ResolveBinaryOptions {
  /**
   * Source of KUBEBUILDER_ASSETS, LEVELHOOK_ASSETS, XDG_CACHE_HOME, LEVELHOOK_ENVTEST_INDEX,
   * LEVELHOOK_KUBERNETES_DOWNLOADS, PATH and the proxy variables. Default: `process.env`.
   */
  readonly env?: Environment;
  /**
   * URL of the index of published envtest archives, in the format of controller-tools' envtest-releases.yaml; false
   * uses no index. Default: `LEVELHOOK_ENVTEST_INDEX`, else the index of kubernetes-sigs/controller-tools.
   */
  readonly envtestIndex?: string | false;
  /**
   * URL of a server with the layout of Kubernetes' own downloads, `v1.36.3/bin/linux/amd64/kube-controller-manager` and
   * its `.sha256`; false uses none. Default: `LEVELHOOK_KUBERNETES_DOWNLOADS`, else https://dl.k8s.io.
   */
  readonly kubernetesDownloads?: string | false;
  /** Called with one line of text at a time during slow work. Default: none. */
  readonly onProgress?: (line: string) => void;
  /** Ends the work when aborted, with the signal's reason. Default: none. */
  readonly signal?: AbortSignal;
}
