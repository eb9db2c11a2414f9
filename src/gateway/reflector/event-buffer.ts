import type { WatchEvent } from './watch-event.ts';

/**
 * The bounded, ordered buffer between the read loop of a watch and the applier. The read loop never waits: it pushes,
 * and when the buffer says that it is full, it ends the watch itself and resumes once the buffer is drained. Waiting
 * inside the loop instead makes the apiserver end the watch of a slow reader, in the middle of anything.
 *
 * One producer, one consumer. Nothing is coalesced.
 */
export class EventBuffer {
  readonly #maxBytes: number;
  #events: { event: WatchEvent; bytes: number }[] = [];
  #bytes = 0;
  #wakeConsumer: (() => void) | undefined;
  #wakeProducer: (() => void) | undefined;

  /** @param maxBytes size of the raw lines it holds before it is full. Default 64 MiB. */
  constructor(maxBytes = 64 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  get full(): boolean {
    return this.#bytes >= this.#maxBytes;
  }

  /** Always takes the event, even past the bound: a parsed line is never thrown away. */
  push(event: WatchEvent, bytes: number): void {
    this.#events.push({ event, bytes });
    this.#bytes += bytes;
    this.#wakeConsumer?.();
  }

  /** At least one event and at most `max`, in order; none once `signal` is aborted. */
  async take(max: number, signal: AbortSignal): Promise<WatchEvent[]> {
    while (this.#events.length === 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#wakeConsumer = undefined;
    }
    if (signal.aborted) return [];
    const taken = this.#events.length <= max ? this.#events : this.#events.slice(0, max);
    this.#events = taken === this.#events ? [] : this.#events.slice(max);
    for (const { bytes } of taken) this.#bytes -= bytes;
    if (this.#events.length === 0) this.#wakeProducer?.();
    return taken.map(({ event }) => event);
  }

  /** Resolves when everything pushed so far has been taken. */
  async drained(signal: AbortSignal): Promise<void> {
    while (this.#events.length > 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#wakeProducer = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#wakeProducer = undefined;
    }
  }
}
