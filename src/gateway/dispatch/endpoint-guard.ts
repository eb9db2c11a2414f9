import {
  circuitBreaker,
  type CircuitBreakerPolicy,
  CircuitState,
  ConsecutiveBreaker,
  DelegateBackoff,
  handleWhenResult,
  type IBreaker,
  SamplingBreaker,
} from 'cockatiel';
import { type Logger, messageOf, type Metrics } from '../../core/index.ts';
import type { Outcome } from './outcome.ts';

export interface EndpointGuardOptions {
  readonly controller: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Parks the keys of the controller, in all gateways. Default: each key finds out by itself. */
  readonly parking?: Parking;
  /** The longest that a trigger can take, in milliseconds: the time of a probe. */
  readonly timeoutMs: number;
  /** 0 to 1. Default `Math.random`. */
  readonly random?: () => number;
  /** How long triggers are withheld before one is let through: at first, and at most, doubling. */
  readonly breakerMs?: readonly [number, number];
  readonly goneMs?: readonly [number, number];
}

/** Where keys wait, without a run and without a slot, for a function that cannot use them. */
export interface Parking {
  /** Until then at the latest, however this gateway ends; a second time replaces the first. Milliseconds since the epoch. */
  park(untilMs: number): Promise<void>;
  release(): Promise<void>;
}

const NO_PARKING: Parking = { park: async () => {}, release: async () => {} };

/** Why nothing is sent: the label of `levelhook_withheld_triggers_total`. */
type WithheldReason = 'breaker' | 'gone';

/**
 * Withholds triggers from an endpoint that cannot use them, so that no key spends attempts on it and an overloaded
 * function is left alone:
 *
 * - `breaker`: in the last ten seconds at least twenty triggers ended, and more than half of them at nobody, or
 *   without an answer that is one. One key that always fails does not get there beside others that do not.
 * - `gone`: three in a row were answered with a 410 of the function itself.
 *
 * After a while, which doubles, one trigger is let through: it ends the withholding, or begins the next while. Meanwhile the
 * keys are parked; those that had started by then are withheld one by one.
 */
export class EndpointGuard {
  readonly #options: Required<EndpointGuardOptions>;
  readonly #gates: readonly Gate[];

  constructor(options: EndpointGuardOptions) {
    const defaults = { random: Math.random, parking: NO_PARKING };
    this.#options = { ...defaults, breakerMs: [500, 10_000], goneMs: [10_000, 300_000], ...options };
    const { breakerMs, goneMs } = this.#options;
    // The rate is that of the ten seconds: twenty triggers.
    const sampling = new SamplingBreaker({ threshold: 0.5, duration: 10_000, minimumRps: 2 });
    this.#gates = [
      this.#gate('gone', isGone, new ConsecutiveBreaker(3), goneMs),
      this.#gate('breaker', isEndpointFailure, sampling, breakerMs),
    ];
  }

  /**
   * Sends a trigger of so many requests, unless it is withheld: `send` is called at once or not at all. An answer counts
   * once, however many outcomes it holds.
   */
  run(requests: number, send: () => Promise<readonly Outcome[]>): Promise<readonly Outcome[]> {
    for (const { reason, policy, openUntilMs } of this.#gates) {
      const waitMs = policy.state === CircuitState.HalfOpen ? PROBE_MS : openUntilMs() - Date.now();
      if (policy.state === CircuitState.Closed || (policy.state === CircuitState.Open && waitMs <= 0)) continue;
      return Promise.resolve(Array.from({ length: requests }, () => this.#withheld(reason, waitMs)));
    }
    return this.#gates.reduce(
      (inner, { policy }) =>
        () =>
          policy.execute(inner),
      send,
    )();
  }

  /** Why nothing is sent at present; undefined while triggers are. */
  get trouble(): string | undefined {
    const shut = this.#gates.find(({ policy }) => policy.state !== CircuitState.Closed);
    return shut && MESSAGES[shut.reason];
  }

  #withheld(reason: WithheldReason, waitMs: number): Outcome {
    const { controller, metrics, random } = this.#options;
    metrics.count('levelhook_withheld_triggers_total', { controller, reason });
    const message = MESSAGES[reason];
    // Spread, so that the keys which wait do not all come at once, most of them to be turned away by the probe.
    return { kind: 'withheld', reason, message, retryAfterMs: Math.max(waitMs, PROBE_MS) * (1 + random() / 2) };
  }

  /** Parking is a relief, and nothing depends on it. In the order in which it was asked for. */
  #tell(parked: Promise<void>): void {
    const { controller, logger } = this.#options;
    parked.catch((error: unknown) => logger.warn({ controller, error: messageOf(error) }, 'keys could not be parked'));
  }

  #gate(
    reason: WithheldReason,
    counts: (outcome: Outcome) => boolean,
    breaker: IBreaker,
    ms: readonly [number, number],
  ): Gate {
    const { controller, logger, metrics, parking, timeoutMs } = this.#options;
    const [firstMs, maxMs] = ms;
    let openMs = 0;
    let openUntilMs = 0;
    const halfOpenAfter = new DelegateBackoff<unknown, number>((_context, before) => {
      openMs = Math.min(before === undefined ? firstMs : before * 2, maxMs);
      return { delay: openMs, state: openMs };
    });
    const policy = circuitBreaker(
      // What says something about the function is the outcome of all of them.
      handleWhenResult((outcomes) => (outcomes as readonly Outcome[]).every(counts)),
      { breaker, halfOpenAfter },
    );
    const show = (open: 0 | 1): void => metrics.set('levelhook_endpoint_withheld', { controller, reason }, open);
    policy.onBreak(() => {
      // Rounded up: cockatiel has taken its own time a moment before.
      openUntilMs = Date.now() + openMs + 1;
      this.#tell(parking.park(openUntilMs));
      show(1);
      logger.warn({ controller, reason, forMs: openMs }, 'triggers are withheld from a function');
    });
    // One key shows whether the function is back: no other needs to come and be sent away.
    policy.onHalfOpen(() => this.#tell(parking.park(Date.now() + timeoutMs + PROBE_MS)));
    policy.onReset(() => {
      this.#tell(parking.release());
      show(0);
      logger.info({ controller, reason }, 'triggers are sent to a function again');
    });
    show(0);
    return { reason, policy, openUntilMs: () => openUntilMs };
  }
}

const MESSAGES = { gone: 'the function says that it is gone', breaker: 'the function does not answer' } as const;

interface Gate {
  readonly reason: WithheldReason;
  readonly policy: CircuitBreakerPolicy;
  readonly openUntilMs: () => number;
}

/** While one trigger shows whether the function is back, and the least time for which another is put off. */
const PROBE_MS = 250;

function isGone(outcome: Outcome): boolean {
  return outcome.kind === 'unknown' && outcome.reason === 'gone';
}

/** What says something about the function rather than about the key. */
function isEndpointFailure(outcome: Outcome): boolean {
  if (outcome.kind === 'refused') return true;
  return outcome.kind === 'unknown' && outcome.reason !== 'write' && outcome.reason !== 'gone';
}
