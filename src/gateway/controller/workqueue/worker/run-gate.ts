import type { StartRate } from './start-rates.ts';

export interface RunGateOptions {
  /** Limits how many runs of the tenant begin here, so that the runs of other tenants do not wait for them. */
  readonly startRate: StartRate;
  /** Called when `room` has changed. */
  readonly onRoom: () => void;
}

/**
 * Whether runs of a queue may begin in this gateway, and how many. It is closed while the queue is suspended, and for
 * good when this gateway ends; then `ending` is aborted. While it is open, `room` says how many may begin.
 */
export class RunGate {
  readonly #options: RunGateOptions;
  readonly #ending = new AbortController();
  /** Present while it is closed: starts wait for it. */
  #shut: { readonly opened: Promise<void>; readonly open: () => void } | undefined;
  #foreign = false;
  #most = Infinity;
  /** The runs in flight that have begun since `#most` was set, while it is not Infinity. */
  readonly #counted = new Set<string>();

  constructor(options: RunGateOptions) {
    this.#options = options;
  }

  /** Aborted when this gateway starts no more runs. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  get ended(): boolean {
    return this.#ending.signal.aborted;
  }

  get closed(): boolean {
    return this.#shut !== undefined;
  }

  /** Whether keys must not wait here for it to open: this gateway ends, or the queue has another owner. */
  get refuses(): boolean {
    return this.ended || this.#foreign;
  }

  /** Whether it was closed because the queue has another owner, or none. */
  get isForeign(): boolean {
    return this.#foreign;
  }

  get startRate(): StartRate {
    return this.#options.startRate;
  }

  /** How many runs the circuit breaker lets begin now. A closed gate does not change it. */
  get room(): number {
    return Math.max(0, this.#most - this.#counted.size);
  }

  /** @param isForeign the queue has another owner, or none. @returns false when it was closed already. */
  close(isForeign = false): boolean {
    const isFirst = this.#shut === undefined;
    if (isFirst) {
      const { promise: opened, resolve: open } = Promise.withResolvers<void>();
      this.#shut = { opened, open };
    }
    this.#foreign ||= isForeign;
    if (this.#foreign) this.#shut?.open();
    return isFirst;
  }

  /** @returns false when it was open already, or is closed for good. */
  open(): boolean {
    if (!this.#shut || this.ended) return false;
    this.#shut.open();
    this.#shut = undefined;
    this.#foreign = false;
    return true;
  }

  /** Closes it for good. */
  end(): void {
    this.close();
    this.#ending.abort();
    this.#shut?.open();
  }

  /** Waits until it is open. @returns false when it refuses keys. */
  async opened(): Promise<boolean> {
    while (this.#shut && !this.refuses) await this.#shut.opened;
    return !this.refuses;
  }

  /**
   * Limits this gateway to `most` runs in flight at a time. The gate does not count runs that began before the call, so
   * that the circuit breaker judges by new runs.
   */
  allow(most: number): void {
    this.#most = most;
    this.#counted.clear();
    this.#options.onRoom();
  }

  /** A run has begun here. */
  began(key: string, run: number): void {
    if (this.#most === Infinity) return;
    this.#counted.add(`${run} ${key}`);
    this.#options.onRoom();
  }

  /** A run has ended here, or was given up. */
  over(key: string, run: number): void {
    if (this.#counted.delete(`${run} ${key}`)) this.#options.onRoom();
  }
}
