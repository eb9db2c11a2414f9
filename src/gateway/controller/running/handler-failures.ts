import { type AdmittedLine, backoffMs, type Clock, type Logger, type Metrics } from '../../../core/index.ts';
import { HandlerError } from '../../informer/cache/change.ts';

export interface HandlerFailuresOptions {
  readonly controller: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The tenant's limit of lines, in addition to the controller's own. Default: none. */
  readonly admitLine?: (() => AdmittedLine | undefined) | undefined;
}

/**
 * Log lines about failed expressions of all controllers of a tenant, and as many about failed handlers. A tenant may
 * have many controllers, whose expressions fail at each event.
 */
export const CHANGE_LINES = { perSecond: 0.1, burst: 20 };

/** Wait after the last failure before the keys are queued: first and longest, doubling when the handlers fail again. */
const WAIT_MS = [5000, 300_000] as const;
/** After this time without a failure, the wait starts at the first value again. */
const FORGET_MS = 600_000;
/** How long a failure is shown at least. */
const SHOWN_MS = 30_000;
/** The least time between two log lines of a controller. */
const QUIET_MS = 60_000;

/**
 * Records the failures of one controller's event handlers. A failed handler misses its change, so all keys of the
 * controller have to be queued. That waits until no handler has failed for a while, because a handler that fails at
 * each event would queue all keys each time. It waits for five minutes at most.
 */
export class HandlerFailures {
  readonly #options: HandlerFailuresOptions;
  #message: string | undefined;
  #atMs = -Infinity;
  /** Failures in a row. Several failures within one wait count once. */
  #failures = 0;
  /** The time of the first failure since all keys were last queued. */
  #failingSinceMs = Infinity;
  #loggedAtMs = -Infinity;
  #remark: { readonly message: string; readonly atMs: number } | undefined;

  constructor(options: HandlerFailuresOptions) {
    this.#options = options;
  }

  /** @param place the changed object, as a log line and a condition may name it: `v1/Pod shop/web`. */
  record(error: unknown, place?: string): void {
    const { admitLine = () => ({}), clock, controller, logger, metrics } = this.#options;
    const now = clock.now();
    metrics.count('levelhook_handler_failures_total', { controller });
    if (now - this.#atMs > FORGET_MS) this.#failures = 0;
    // Failures within one wait count once.
    if (now - this.#atMs >= this.#waitMs) this.#failures += 1;
    this.#atMs = now;
    this.#failingSinceMs = Math.min(this.#failingSinceMs, now);
    this.#message = `${reasonOf(error)}${place === undefined ? '' : ` (${place})`}`;
    if (now - this.#loggedAtMs < QUIET_MS) return;
    const admitted = admitLine();
    if (!admitted) return;
    this.#loggedAtMs = now;
    logger.warn(
      { controller, reason: this.#message, waitMs: this.#waitMs, ...admitted },
      'the handlers of a controller failed: it misses events, and all its keys are queued once the handlers work',
    );
  }

  get #waitMs(): number {
    return this.#failures === 0 ? 0 : backoffMs(WAIT_MS, this.#failures);
  }

  /** Records a failure that loses no key, for a condition. */
  remark(message: string): void {
    this.#remark = { message, atMs: this.#options.clock.now() };
  }

  /** The recent remark; undefined when there is none. */
  get remarks(): string | undefined {
    return this.#options.clock.now() < this.#remarkedUntilMs ? this.#remark?.message : undefined;
  }

  /** Whether the keys that have to be queued still wait. Repeated failures delay them by the longest wait at most. */
  get isRecent(): boolean {
    const now = this.#options.clock.now();
    return now - this.#atMs < this.#waitMs && now - this.#failingSinceMs < WAIT_MS[1];
  }

  /** Must be called before all keys are queued, which makes up for earlier failures. */
  delivered(): void {
    this.#failingSinceMs = Infinity;
  }

  /** Why events are missed at present; undefined when none are. Once none are, all keys are queued. */
  get missesEvents(): string | undefined {
    return this.#options.clock.now() < this.#missesUntilMs ? this.#message : undefined;
  }

  /** When the first of `missesEvents` and `remarks` ends by itself; Infinity when neither says anything. */
  get endsMs(): number {
    const now = this.#options.clock.now();
    return Math.min(...[this.#missesUntilMs, this.#remarkedUntilMs].filter((atMs) => now < atMs));
  }

  get #missesUntilMs(): number {
    return this.#atMs + Math.max(this.#waitMs, SHOWN_MS);
  }

  get #remarkedUntilMs(): number {
    return (this.#remark?.atMs ?? -Infinity) + SHOWN_MS;
  }
}

/** Shows only the class of an unexpected error, because its message may quote the contents of an object. */
function reasonOf(error: unknown): string {
  if (error instanceof HandlerError) return error.message;
  return error instanceof Error ? `its handlers failed (${error.name})` : 'its handlers failed';
}
