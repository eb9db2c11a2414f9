import { type Clock, type Logger, messageOf, type Metrics, systemClock } from '../../core/index.ts';
import { CircuitBreaker, consecutiveFailures, mostlyFailures, type Trip } from './circuit-breaker.ts';
import type { Outcome } from './outcome.ts';

export interface EndpointGuardOptions {
  readonly controller: string;
  /** Default: the system's. */
  readonly clock?: Pick<Clock, 'now'>;
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
  /** Until then at the latest, by the gateway's clock, however this gateway ends; a second time replaces the first. */
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
 * After a while, which doubles, one trigger is let through: it ends the withholding, or begins the next while.
 * Meanwhile the keys are parked; those that had started by then are withheld one by one.
 */
export class EndpointGuard {
  readonly #options: Required<EndpointGuardOptions>;
  readonly #gates: readonly Gate[];

  constructor(options: EndpointGuardOptions) {
    const defaults = { clock: systemClock, random: Math.random, parking: NO_PARKING };
    this.#options = { ...defaults, breakerMs: [500, 10_000], goneMs: [10_000, 300_000], ...options };
    const { breakerMs, goneMs } = this.#options;
    this.#gates = [
      this.#gate('gone', isGone, consecutiveFailures(3), goneMs),
      this.#gate('breaker', isEndpointFailure, mostlyFailures(10_000, 20), breakerMs),
    ];
  }

  /**
   * Sends a trigger of so many requests, unless it is withheld: `send` is called at once or not at all. An answer
   * counts once, however many outcomes it holds.
   */
  run(requests: number, send: () => Promise<readonly Outcome[]>): Promise<readonly Outcome[]> {
    for (const { reason, breaker } of this.#gates) {
      const waitMs = breaker.state === 'half-open' ? PROBE_MS : breaker.openForMs;
      if (waitMs === 0) continue;
      return Promise.resolve(Array.from({ length: requests }, () => this.#withheld(reason, waitMs)));
    }
    return this.#gates.reduce(
      (inner, { breaker, counts }) =>
        () =>
          // What says something about the function is the outcome of all of them.
          breaker.call(inner, (outcomes) => outcomes.every(counts)),
      send,
    )();
  }

  /** Why nothing is sent at present; undefined while triggers are. */
  get trouble(): string | undefined {
    const shut = this.#gates.find(({ breaker }) => breaker.state !== 'closed');
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

  #gate(reason: WithheldReason, counts: Gate['counts'], trip: Trip, openMs: readonly [number, number]): Gate {
    const { clock, controller, logger, metrics, parking, timeoutMs } = this.#options;
    const show = (open: 0 | 1): void => metrics.set('levelhook_endpoint_withheld', { controller, reason }, open);
    const breaker = new CircuitBreaker({
      clock,
      trip,
      openMs,
      onOpen: (forMs) => {
        this.#tell(parking.park(clock.now() + forMs + 1));
        show(1);
        logger.warn({ controller, reason, forMs }, 'triggers are withheld from a function');
      },
      // One key shows whether the function is back: no other needs to come and be sent away.
      onHalfOpen: () => this.#tell(parking.park(clock.now() + timeoutMs + PROBE_MS)),
      onClosed: () => {
        this.#tell(parking.release());
        show(0);
        logger.info({ controller, reason }, 'triggers are sent to a function again');
      },
    });
    show(0);
    return { reason, breaker, counts };
  }
}

const MESSAGES = { gone: 'the function says that it is gone', breaker: 'the function does not answer' } as const;

interface Gate {
  readonly reason: WithheldReason;
  readonly breaker: CircuitBreaker;
  /** Whether an outcome is one of its failures. */
  readonly counts: (outcome: Outcome) => boolean;
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
