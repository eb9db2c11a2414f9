import type { Clock } from '../../core/index.ts';
import type { OpenCircuit } from './key-status.ts';

export interface CircuitOptions {
  readonly clock: Pick<Clock, 'now' | 'sleep'>;
  /** `room` may have changed. */
  readonly onChanged: () => void;
}

/**
 * How many runs this gateway may start, as the circuit breaker of the function says: any number while the circuit is
 * closed, none while it is open, and one at a time after that, until the outcome of such a run closes or opens it
 * again. It is in memory: other gateways start runs as their own circuits say.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  #open: OpenCircuit | undefined;
  /** The one run that was started since the circuit is half-open. */
  #probe: { readonly key: string; readonly run: number } | undefined;
  #waiting = new AbortController();

  constructor(options: CircuitOptions) {
    this.#options = options;
  }

  /** Undefined while it is closed. */
  get state(): OpenCircuit | undefined {
    return this.#open;
  }

  /** How many runs may start now: Infinity, 1 or 0. */
  get room(): number {
    if (!this.#open) return Infinity;
    return this.#probe || this.#options.clock.now() < this.#open.untilMs ? 0 : 1;
  }

  /** No run starts until then, and one at a time after that. A second time replaces the first. */
  open(untilMs: number): void {
    const { clock } = this.#options;
    this.#waiting.abort();
    this.#waiting = new AbortController();
    this.#open = { sinceMs: this.#open?.sinceMs ?? clock.now(), untilMs };
    this.#probe = undefined;
    void this.#becomeHalfOpen(untilMs, this.#waiting.signal);
    this.#options.onChanged();
  }

  close(): void {
    if (!this.#open) return;
    this.#waiting.abort();
    this.#open = undefined;
    this.#probe = undefined;
    this.#options.onChanged();
  }

  /** This run is about to begin here. */
  started(key: string, run: number): void {
    if (this.room !== 1) return;
    this.#probe = { key, run };
    this.#options.onChanged();
  }

  /** This run has ended. If its outcome said nothing about the function, another one may start. */
  ended(key: string, run: number): void {
    if (this.#probe?.key !== key || this.#probe.run !== run) return;
    this.#probe = undefined;
    this.#options.onChanged();
  }

  /** Waits for no time any more. */
  stop(): void {
    this.#waiting.abort();
  }

  async #becomeHalfOpen(untilMs: number, signal: AbortSignal): Promise<void> {
    const { clock, onChanged } = this.#options;
    // A timer may fire a little early.
    while (!signal.aborted && clock.now() < untilMs) await clock.sleep(untilMs - clock.now(), signal);
    if (!signal.aborted) onChanged();
  }
}
