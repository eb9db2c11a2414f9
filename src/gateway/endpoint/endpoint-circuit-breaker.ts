import { type BackoffRange, type Clock, messageOf, type Runtime } from '../../core/index.ts';
import { CircuitBreaker, consecutiveFailures, mostlyFailures, type Trip } from './circuit-breaker.ts';
import type { Outcome } from './outcome.ts';

export interface EndpointCircuitBreakerOptions {
  readonly controller: string;
  readonly runtime: Pick<Runtime, 'logger' | 'metrics'> & { readonly clock: Pick<Clock, 'now'> };
  /** Pauses the keys of the controller, in all gateways. Default: each key finds out by itself. */
  readonly keys?: PausableKeys;
  /** The longest that a trigger can take, in milliseconds: the time of a probe. */
  readonly timeoutMs: number;
  /** 0 to 1. Default `Math.random`. */
  readonly random?: () => number;
  /** How long each circuit stays open before one trigger is let through: at first, and at most, doubling. */
  readonly unreachableMs?: BackoffRange;
  readonly goneMs?: BackoffRange;
}

/** The keys of one controller: while they are paused they wait without a run and without a slot. */
export interface PausableKeys {
  /** Until then at the latest, by the gateway's clock, however this gateway ends; a second time replaces the first. */
  pause(untilMs: number): Promise<void>;
  resume(): Promise<void>;
}

const UNPAUSABLE: PausableKeys = { pause: async () => {}, resume: async () => {} };

/** Why a circuit is open: the label of `levelhook_circuit_breaker_open` and `levelhook_triggers_not_sent_total`. */
type OpenReason = 'unreachable' | 'gone';

/**
 * Stops sending triggers to an endpoint that does not answer, so that keys spend no attempts on it and an overloaded
 * function can recover. It has two circuits:
 *
 * - `unreachable`: in the last ten seconds at least twenty triggers ended, and more than half of them without a
 *   connection or without a valid answer. One key that always fails does not open it beside others that succeed.
 * - `gone`: the function itself answered three triggers in a row with 410.
 *
 * After a time, which doubles, an open circuit lets one trigger through; its outcome closes the circuit or opens it
 * again. Meanwhile the keys are paused, and the dispatcher puts off a key that had started before the pause.
 */
export class EndpointCircuitBreaker {
  readonly #options: Required<EndpointCircuitBreakerOptions>;
  readonly #circuits: readonly Circuit[];

  constructor(options: EndpointCircuitBreakerOptions) {
    const defaults = { random: Math.random, keys: UNPAUSABLE };
    this.#options = { ...defaults, unreachableMs: [500, 10_000], goneMs: [10_000, 300_000], ...options };
    const { unreachableMs, goneMs } = this.#options;
    this.#circuits = [
      this.#circuit('gone', isGone, consecutiveFailures(3), goneMs),
      this.#circuit('unreachable', isEndpointFailure, mostlyFailures(10_000, 20), unreachableMs),
    ];
  }

  /**
   * After how many milliseconds a key may be tried again, when a circuit is open; undefined when a trigger may be sent
   * now. Spread at random, so that the keys do not come back all at once, most of them to be put off by the probe. Each
   * call that puts a key off is counted as a trigger that was not sent.
   */
  putOff(): number | undefined {
    const { controller, random, runtime } = this.#options;
    for (const { reason, breaker } of this.#circuits) {
      const waitMs = breaker.state === 'half-open' ? PROBE_MS : breaker.openForMs;
      if (waitMs === 0) continue;
      runtime.metrics.count('levelhook_triggers_not_sent_total', { controller, reason });
      return Math.max(waitMs, PROBE_MS) * (1 + random() / 2);
    }
    return undefined;
  }

  /**
   * Sends a trigger by calling `send`. Only when `putOff` has just answered undefined. An answer counts once, however
   * many outcomes it has.
   */
  run(send: () => Promise<readonly Outcome[]>): Promise<readonly Outcome[]> {
    return this.#circuits.reduce(
      (inner, { breaker, counts }) =>
        () =>
          // What says something about the function is the outcome of all of them.
          breaker.call(inner, (outcomes) => outcomes.every(counts)),
      send,
    )();
  }

  /** Why a circuit is open; undefined while all are closed. */
  get openReason(): string | undefined {
    const open = this.#circuits.find(({ breaker }) => breaker.state !== 'closed');
    return open && MESSAGES[open.reason];
  }

  /** A pause saves work, and nothing depends on it. Pauses are stored in the order in which they were asked for. */
  #logFailure(paused: Promise<void>): void {
    const { controller, runtime } = this.#options;
    const { logger } = runtime;
    paused.catch((error: unknown) => logger.warn({ controller, error: messageOf(error) }, 'keys could not be paused'));
  }

  #circuit(reason: OpenReason, counts: Circuit['counts'], trip: Trip, openMs: BackoffRange): Circuit {
    const { controller, keys, timeoutMs, runtime } = this.#options;
    const { clock, logger, metrics } = runtime;
    const show = (open: 0 | 1): void => metrics.set('levelhook_circuit_breaker_open', { controller, reason }, open);
    const breaker = new CircuitBreaker({
      clock,
      trip,
      openMs,
      onOpen: (forMs) => {
        this.#logFailure(keys.pause(clock.now() + forMs + 1));
        show(1);
        logger.warn({ controller, reason, forMs }, 'the circuit breaker of a function opened');
      },
      // One key shows whether the function is back: no other needs to come and be sent away.
      onHalfOpen: () => this.#logFailure(keys.pause(clock.now() + timeoutMs + PROBE_MS)),
      onClosed: () => {
        this.#logFailure(keys.resume());
        show(0);
        logger.info({ controller, reason }, 'the circuit breaker of a function closed');
      },
    });
    show(0);
    return { reason, breaker, counts };
  }
}

const MESSAGES = { gone: 'the function says that it is gone', unreachable: 'the function does not answer' } as const;

interface Circuit {
  readonly reason: OpenReason;
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
