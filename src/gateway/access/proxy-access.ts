import type { Clock } from '../../core/index.ts';
import type { KubernetesLocation } from '../../contract/index.ts';
import type { Run } from '../workqueue/run.ts';
import type { KubernetesAccess } from './kubernetes-credentials.ts';
import type { TokenKeys } from './token-keys.ts';

export interface ProxyAccessOptions {
  /** The controller's id. */
  readonly controller: string;
  /** The gateway's own Kubernetes API. */
  readonly url: string;
  readonly keys: Pick<TokenKeys, 'signRuns'>;
  /** Of the controller's queue. Undefined while it is being checked. */
  readonly incarnation: () => Promise<string | undefined>;
  /** Whether runs may go on after their answer, and their token after the deadline. */
  readonly goOn: boolean;
  readonly clock: Clock;
}

/** A write is refused after the deadline of its run, whatever its token says: Redis has the deadline. */
const MARGIN_MS = 1000;
/** The longest `callbackSeconds`. Signing keys verify for a day at least. */
const DAY_MS = 86_400_000;

/** The gateway itself as the apiserver of a function: a token for each trigger, good for its runs. */
export class ProxyAccess implements KubernetesAccess {
  readonly #options: ProxyAccessOptions;

  constructor(options: ProxyAccessOptions) {
    this.#options = options;
  }

  async location(runs: readonly Pick<Run, 'key' | 'run' | 'deadlineMs'>[]): Promise<KubernetesLocation> {
    const { clock, controller, goOn, keys, url } = this.#options;
    const incarnation = await this.#options.incarnation();
    if (incarnation === undefined) throw new Error('the queue is being checked');
    const claims = { controller, incarnation, runs: Object.fromEntries(runs.map(({ key, run }) => [run, key])) };
    const deadlineMs = Math.max(...runs.map((run) => run.deadlineMs));
    // To the second, and rounded down.
    const expiresAtMs = goOn ? clock.now() + DAY_MS : deadlineMs + MARGIN_MS + 1000;
    return { url, token: await keys.signRuns(claims, expiresAtMs), recordsWrites: true };
  }
}
