import type { Clock } from '../../../core/index.ts';
import type { CacheScope } from '../../../contract/index.ts';
import type { Run } from '../workqueue/run.ts';
import type { TokenKeys } from './token-keys.ts';
import type { TokenAudience, TokenClaims } from './token.ts';

/** A run, as far as tokens are concerned. */
export type TokenRun = Pick<Run, 'key' | 'run' | 'incarnation' | 'deadlineMs'>;

export interface TriggerTokensOptions {
  /** The controller's id. */
  readonly controller: string;
  /** See `ControllerSpec.declaration`. */
  readonly declaration: string;
  readonly keys: Pick<TokenKeys, 'sign'>;
  /** Whether runs may go on after their answer, and their tokens after the deadline. */
  readonly goOn: boolean;
  readonly clock: Pick<Clock, 'now'>;
}

/** Added to the time of a token. The gateway also checks the runs in Redis, so a token ends with its runs anyway. */
const MARGIN_MS = 1000;
const DAY_MS = 86_400_000;
/** A run may go on for as long as its callbacks extend it. */
const CALLBACK_MS = 366 * DAY_MS;

/** Makes the tokens of one controller's triggers: each is good for the runs of its trigger. */
export class TriggerTokens {
  readonly #options: TriggerTokensOptions;

  constructor(options: TriggerTokensOptions) {
    this.#options = options;
  }

  /** For the runs of a trigger, which are of one queue. */
  sign(
    audience: TokenAudience,
    runs: readonly TokenRun[],
    reads: Pick<TokenClaims, 'scope' | 'positions'> = {},
  ): string {
    const { clock, controller, declaration, goOn, keys } = this.#options;
    const deadlineMs = Math.max(...runs.map((run) => run.deadlineMs));
    const goesOnMs = audience === 'levelhook-callback' ? CALLBACK_MS : DAY_MS;
    // A second is added, because `TokenKeys.sign` rounds down to the second.
    const expiresAtMs = goOn ? clock.now() + goesOnMs : deadlineMs + MARGIN_MS + 1000;
    const incarnation = runs[0]?.incarnation ?? '';
    const named = { incarnation, keys: Object.fromEntries(runs.map(({ key, run }) => [run, key])) };
    return keys.sign(audience, { controller, declaration, ...reads, runs: named }, expiresAtMs);
  }

  /** A token to read the cache until then, without a run: for a review. */
  signUntil(untilMs: number, scope: CacheScope): string {
    const { controller, declaration, keys } = this.#options;
    return keys.sign('levelhook-cache', { controller, declaration, scope }, untilMs + MARGIN_MS + 1000);
  }
}
