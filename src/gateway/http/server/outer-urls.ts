import { isLoopback } from '../../../contract/secure-url.ts';
import { CACHE_PATH, CALLBACK_PATH, KUBERNETES_PATH } from './admin-server.ts';

/** Where functions reach this gateway. All are undefined where functions do not reach it. */
export class OuterUrls {
  /** The cache API. The other paths are below it, because it is the one address that the settings name. */
  readonly cache: string | undefined;

  /**
   * @param own of the gateway's server, which functions reach without a setting on loopback only.
   * @param configured of the cache API, in the settings.
   */
  constructor(own: string, configured: string | undefined) {
    this.cache = configured ?? (isLoopback(new URL(own).hostname) ? own + CACHE_PATH : undefined);
  }

  /** The Kubernetes API of the gateway. */
  get kubernetes(): string | undefined {
    return this.#below(KUBERNETES_PATH);
  }

  /** Where a function may send the outcome of a run that goes on. It is signed, and holds no secret. */
  callback(controller: string): string | undefined {
    const url = this.#below(CALLBACK_PATH);
    return url === undefined ? undefined : `${url}/${controller}`;
  }

  #below(path: string): string | undefined {
    return this.cache === undefined ? undefined : this.cache + path.slice(CACHE_PATH.length);
  }
}
