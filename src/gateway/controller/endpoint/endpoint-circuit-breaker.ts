import type { AdmittedLine, BackoffRange, Clock, LogFields, Runtime } from '../../../core/index.ts';
import { CircuitBreaker, consecutiveFailures, mostlyFailures, type Trip } from './circuit-breaker.ts';
import type { OpenCircuit } from './open-circuit.ts';
import type { Outcome } from './outcome.ts';

export interface EndpointCircuitBreakerOptions {
  readonly controller: string;
  readonly runtime: Pick<Runtime, 'logger' | 'metrics'> & { readonly clock: Pick<Clock, 'now' | 'sleep'> };
  readonly keys: KeyStarts;
  /** Whether a line about a circuit may be logged. */
  readonly admitLine: () => AdmittedLine | undefined;
  /** Aborted when no more triggers are sent. */
  readonly ending: AbortSignal;
  /** How long each circuit stays open before one trigger is let through: at first, and at most, doubling. */
  readonly unreachableMs?: BackoffRange;
  readonly goneMs?: BackoffRange;
  readonly startingMs?: BackoffRange;
}

/** Starts the controller's keys in this gateway: its work queue. */
export interface KeyStarts {
  /** Replaces the limit of runs in flight. Runs that started before the call do not count. */
  allow(most: number): void;
}

/**
 * The state of an endpoint, as the triggers of this gateway show it:
 *
 * - `up`: any number of triggers is sent.
 * - `asleep`: the function is absent within its start window, so no trigger was sent. This is no fault.
 * - `failing`: the function does not answer, or says that it is gone. As in `asleep`, no trigger is sent for a time.
 * - `probing`: this time is over, and one trigger decides. It leads to `up`, or back for twice the time.
 */
export type EndpointState = 'up' | 'asleep' | 'failing' | 'probing';

/** Why a circuit is open: the label of `levelhook_circuit_breaker_open` and `levelhook_triggers_not_sent_total`. */
type OpenReason = 'unreachable' | 'gone' | 'starting';

/**
 * Stops sending triggers to an endpoint that does not answer, so that keys spend no attempts on it and an overloaded
 * function can recover. It has three circuits:
 *
 * - `unreachable`: in the last ten seconds at least twenty triggers ended, and more than half of them without a
 *   connection or without a valid answer. One key that always fails does not open it while others succeed.
 * - `gone`: the function itself answered three triggers in a row with 410.
 * - `starting`: the function is absent within its start window (`ColdStart`), so no trigger was sent.
 *
 * After a time, which doubles, an open circuit lets one trigger through; its outcome closes the circuit or opens it
 * again. Until then this gateway starts no keys of the controller, then one at a time, and the dispatcher gives back a
 * key that had started before. Each gateway judges by its own triggers: gateways that reach the function go on.
 */
export class EndpointCircuitBreaker {
  readonly #options: Required<EndpointCircuitBreakerOptions>;
  readonly #circuits: readonly Circuit[];
  #open: OpenCircuit | undefined;
  /** Aborts the wait of `#allowAt`. */
  #waiting = new AbortController();

  constructor(options: EndpointCircuitBreakerOptions) {
    this.#options = {
      unreachableMs: [500, 10_000],
      goneMs: [10_000, 300_000],
      startingMs: [250, 2000],
      ...options,
    };
    const { unreachableMs, goneMs, startingMs } = this.#options;
    this.#circuits = [
      this.#circuit('gone', isGone, consecutiveFailures(3), goneMs),
      this.#circuit('unreachable', isEndpointFailure, mostlyFailures(10_000, 20), unreachableMs),
      this.#circuit('starting', isStarting, consecutiveFailures(1), startingMs),
    ];
  }

  /**
   * Whether no trigger may be sent now, because a circuit is open or waits for the outcome of another trigger. Each
   * call that returns true counts as a trigger that was not sent.
   */
  refuses(): boolean {
    const open = this.#circuits.find(({ breaker }) => breaker.state === 'half-open' || breaker.openForMs > 0);
    if (!open) return false;
    this.countNotSent(open.reason);
    return true;
  }

  /** Counts a key whose trigger was not sent. */
  countNotSent(reason: OpenReason): void {
    const { controller, runtime } = this.#options;
    runtime.metrics.count('levelhook_triggers_not_sent_total', { controller, reason });
  }

  /**
   * Sends a trigger by calling `send`. The caller must have got false from `refuses` just before. An answer counts
   * once, however many outcomes it has.
   */
  run(send: () => Promise<readonly Outcome[]>): Promise<readonly Outcome[]> {
    return this.#circuits.reduce(
      (inner, { breaker, counts }) =>
        () =>
          // A trigger counts as a failure of the function only if all its outcomes do.
          breaker.call(inner, (outcomes) => outcomes.every(counts)),
      send,
    )();
  }

  get state(): EndpointState {
    return this.#stateFor(this.#openForMs);
  }

  #stateFor(openForMs: number): EndpointState {
    const open = this.#circuits.filter(({ breaker }) => breaker.state !== 'closed');
    if (open.length === 0) return 'up';
    if (openForMs === 0) return 'probing';
    return open.every(({ reason }) => reason === 'starting') ? 'asleep' : 'failing';
  }

  /** Undefined while all circuits are closed. */
  get circuit(): OpenCircuit | undefined {
    return this.#open;
  }

  /** Why a circuit is open; undefined while all are closed, and while the function is starting. */
  get #reason(): string | undefined {
    const open = this.#circuits.find(({ breaker }) => breaker.state !== 'closed');
    return open && MESSAGES[open.reason];
  }

  /** How long no trigger is sent; 0 when a trigger may be sent, or the deciding trigger is in flight. */
  get #openForMs(): number {
    return Math.max(...this.#circuits.map(({ breaker }) => breaker.openForMs));
  }

  #allow(): void {
    const { keys, runtime } = this.#options;
    this.#waiting.abort();
    // Read once, and before the time: a millisecond that passes between two readings would end the wait too early, or
    // leave no wait to a circuit that still lets no key through.
    const openForMs = this.#openForMs;
    const state = this.#stateFor(openForMs);
    if (state === 'up') {
      this.#open = undefined;
      return keys.allow(Infinity);
    }
    const nowMs = runtime.clock.now();
    const untilMs = Math.ceil(nowMs + openForMs);
    this.#open = { sinceMs: this.#open?.sinceMs ?? nowMs, untilMs, reason: this.#reason };
    keys.allow(state === 'probing' ? 1 : 0);
    if (openForMs > 0) void this.#allowAt(untilMs);
  }

  async #allowAt(untilMs: number): Promise<void> {
    const { ending, runtime } = this.#options;
    const { clock } = runtime;
    this.#waiting = new AbortController();
    const signal = AbortSignal.any([this.#waiting.signal, ending]);
    // A timer may fire a little early.
    while (!signal.aborted && clock.now() < untilMs) await clock.sleep(untilMs - clock.now(), signal);
    if (!signal.aborted) this.#allow();
  }

  #circuit(reason: OpenReason, counts: Circuit['counts'], trip: Trip, openMs: BackoffRange): Circuit {
    const { controller, runtime } = this.#options;
    const { clock, metrics } = runtime;
    const show = (open: 0 | 1): void => metrics.set('levelhook_circuit_breaker_open', { controller, reason }, open);
    const breaker = new CircuitBreaker({
      clock,
      trip,
      openMs,
      onOpen: (forMs) => {
        show(1);
        this.#allow();
        if (reason === 'starting') {
          if (forMs === openMs[0]) this.#log('info', {}, 'a function does not answer yet, its keys wait');
          return;
        }
        this.#log('warn', { reason, forMs }, 'the circuit breaker of a function opened');
      },
      onClosed: () => {
        show(0);
        this.#allow();
        const message =
          reason === 'starting' ? 'the keys of a function start again' : 'the circuit breaker of a function closed';
        this.#log('info', { reason }, message);
      },
    });
    show(0);
    return { reason, breaker, counts };
  }

  /** Limits the lines, because a function may open and close its circuits as often as it likes. */
  #log(level: 'info' | 'warn', fields: LogFields, message: string): void {
    const { admitLine, controller, runtime } = this.#options;
    const admitted = admitLine();
    if (admitted) runtime.logger[level]({ controller, ...fields, ...admitted }, message);
  }
}

const MESSAGES = {
  gone: 'the function says that it is gone',
  unreachable: 'the function does not answer',
  // A start is no fault.
  starting: undefined,
} as const satisfies Record<OpenReason, string | undefined>;

interface Circuit {
  readonly reason: OpenReason;
  readonly breaker: CircuitBreaker;
  /** Whether an outcome is one of its failures. */
  readonly counts: (outcome: Outcome) => boolean;
}

function isGone(outcome: Outcome): boolean {
  return outcome.kind === 'unknown' && outcome.reason === 'gone';
}

function isStarting(outcome: Outcome): boolean {
  return outcome.kind === 'not-sent' && !outcome.isThere;
}

/** Outcomes that are about the function rather than about the key. */
function isEndpointFailure(outcome: Outcome): boolean {
  if (outcome.kind === 'refused') return true;
  return outcome.kind === 'unknown' && outcome.reason !== 'write' && outcome.reason !== 'gone';
}
