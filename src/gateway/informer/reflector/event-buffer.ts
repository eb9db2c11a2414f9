import type { Clock } from '../../../core/index.ts';
import type { WatchEvent } from './watch-event.ts';

/**
 * The bounded, ordered buffer between the read loop of a watch and the applier. The read loop never waits: when the
 * buffer is full, the loop ends the watch itself and resumes it once the buffer is drained. If the loop waited, the
 * apiserver would end the watch of a slow reader at any event.
 *
 * One consumer; producers that can wait may be several. Nothing is coalesced.
 */
export class EventBuffer {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #maxBytes: number;
  /** Those before `#head` are taken. */
  #events: ({ event: WatchEvent; bytes: number; atMs: number } | undefined)[] = [];
  #head = 0;
  #bytes = 0;
  #wakeConsumer: (() => void) | undefined;
  readonly #wakeProducers = new Set<() => void>();

  /** @param maxBytes size of the raw lines it holds before it is full. Default 64 MiB. */
  constructor(clock: Pick<Clock, 'now'>, maxBytes = 64 * 1024 * 1024) {
    this.#clock = clock;
    this.#maxBytes = maxBytes;
  }

  /** The size of its events, as raw lines. */
  get bytes(): number {
    return this.#bytes;
  }

  /** When the oldest event that it holds was pushed, by its clock; undefined when it is empty. */
  get oldestAtMs(): number | undefined {
    return this.#events[this.#head]?.atMs;
  }

  /** How many events it holds. */
  get length(): number {
    return this.#events.length - this.#head;
  }

  get full(): boolean {
    return this.#bytes >= this.#maxBytes;
  }

  /** Always takes the event, even past the bound: a parsed line is never thrown away. */
  push(event: WatchEvent, bytes: number): void {
    this.#events.push({ event, bytes, atMs: this.#clock.now() });
    this.#bytes += bytes;
    this.#wakeConsumer?.();
  }

  /**
   * At least one event and at most `max`, in order, and no more once they have `maxBytes` together; none once `signal`
   * is aborted.
   */
  async take(max: number, signal: AbortSignal, maxBytes = Infinity): Promise<WatchEvent[]> {
    await this.filled(signal);
    if (signal.aborted) return [];
    const taken: WatchEvent[] = [];
    let bytes = 0;
    while (taken.length < max && bytes < maxBytes && !this.#empty) {
      const next = this.#events[this.#head];
      // Let go of at once: the rest of the buffer may live on for long.
      this.#events[this.#head] = undefined;
      this.#head += 1;
      if (!next) continue;
      taken.push(next.event);
      this.#bytes -= next.bytes;
      bytes += next.bytes;
    }
    if (this.#empty) {
      this.#events = [];
      this.#head = 0;
    }
    for (const wake of this.#wakeProducers) wake();
    return taken;
  }

  /** Resolves when there is an event to take, or once `signal` is aborted. */
  async filled(signal: AbortSignal): Promise<void> {
    while (this.#empty && !signal.aborted) {
      await untilAborted(signal, (wake) => (this.#wakeConsumer = wake));
      this.#wakeConsumer = undefined;
    }
  }

  get #empty(): boolean {
    return this.#head === this.#events.length;
  }

  /** Resolves when everything pushed so far has been taken. */
  async drained(signal: AbortSignal): Promise<void> {
    await this.#below(0, signal);
  }

  /**
   * Resolves when little is left, a 64th of the bound: how far a producer that can wait reads ahead.
   * @returns whether it had to wait.
   */
  low(signal: AbortSignal): Promise<boolean> {
    return this.#below(this.#maxBytes / 64, signal);
  }

  async #below(bytes: number, signal: AbortSignal): Promise<boolean> {
    let waited = false;
    while (!this.#empty && this.#bytes >= bytes && !signal.aborted) {
      waited = true;
      const waiting = Promise.withResolvers<void>();
      this.#wakeProducers.add(waiting.resolve);
      await untilAborted(signal, (wake) => void waiting.promise.then(wake));
      this.#wakeProducers.delete(waiting.resolve);
    }
    return waited;
  }
}

/** Until `wake` is called or `signal` is aborted; leaves no listener on a signal that lives as long as the gateway. */
async function untilAborted(signal: AbortSignal, wait: (wake: () => void) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  wait(resolve);
  const aborted = (): void => resolve();
  signal.addEventListener('abort', aborted, { once: true });
  await promise;
  signal.removeEventListener('abort', aborted);
}
