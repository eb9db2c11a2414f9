import type { Environment } from '../process/environment.ts';

export interface ResolveBinaryOptions {
  /**
   * Read for KUBEBUILDER_ASSETS, LEVELHOOK_ASSETS, XDG_CACHE_HOME, LEVELHOOK_ENVTEST_INDEX, PATH and the proxy
   * variables. Default: `process.env`.
   */
  readonly env?: Environment;
  /**
   * Where the index of published envtest archives is, in the format of controller-tools' envtest-releases.yaml; false
   * looks for none. Default: `LEVELHOOK_ENVTEST_INDEX`, else the index of kubernetes-sigs/controller-tools.
   */
  readonly envtestIndex?: string | false;
  /** Called with one line of text at a time while something takes long. Default: none. */
  readonly onProgress?: (line: string) => void;
  /** Gives up when aborted, with the signal's reason. Default: none. */
  readonly signal?: AbortSignal;
}
