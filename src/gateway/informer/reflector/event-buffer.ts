import type { Clock } from '../../../core/index.ts';
import { ORDINARY_FACTOR } from '../../../ground/json-weight.ts';
import type { WatchEvent } from './watch-event.ts';

const MIB = 1024 * 1024;
/** What several buffers weigh together. */
export class BufferedWeight {
  readonly max: number;
  /** Kept by the buffers. */
  now = 0;
  /** How many of them hold something. */
  holders = 0;

  /** @param max of all together. Default: 128 MiB. */
  constructor(max = 128 * MIB) {
    this.max = max;
  }
}

/** Of all buffers of the process. */
const BUFFERED = new BufferedWeight();

/**
 * The bounded, ordered buffer between the read loop of a watch and the applier. The read loop never waits: when the
 * buffer is full, the loop ends the watch itself and resumes it once the buffer is drained. If the loop waited, the
 * apiserver would end the watch of a slow reader at any event.
 *
 * The bounds are of the events' weight (`weightOf`): the buffer has one, and all buffers of the process have one
 * together. Above the latter the buffers that hold much of it are full, so that those are drained first, and small ones
 * go on.
 *
 * One consumer; producers that can wait may be several. Nothing is coalesced.
 */
export class EventBuffer {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #maxWeight: number;
  readonly #together: BufferedWeight;
  /** Those before `#head` are taken. */
  #events: ({ event: WatchEvent; bytes: number; weight: number; atMs: number } | undefined)[] = [];
  #head = 0;
  #weight = 0;
  #hasEnded = false;
  #wakeConsumer: (() => void) | undefined;
  readonly #wakeProducers = new Set<() => void>();

  /**
   * @param maxWeight of the events that it holds before it is full. Default 64 MiB.
   * @param together the weight of all buffers that share a bound. Default: of all others of the process.
   */
  constructor(clock: Pick<Clock, 'now'>, maxWeight = 64 * MIB, together = BUFFERED) {
    this.#clock = clock;
    this.#maxWeight = maxWeight;
    this.#together = together;
  }

  /** What its events take in memory, about. */
  get weight(): number {
    return this.#weight;
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
    if (this.#weight >= this.#maxWeight) return true;
    const { now, max } = this.#together;
    return now > max && this.#weight > max / Math.max(8, this.#together.holders);
  }

  /**
   * Always takes the event, even past the bound: a parsed line is never thrown away.
   * @param bytes of the event as text.
   * @param weight Default: that of an ordinary object.
   */
  push(event: WatchEvent, bytes: number, weight = ORDINARY_FACTOR * bytes): void {
    if (this.#hasEnded) return;
    this.#events.push({ event, bytes, weight, atMs: this.#clock.now() });
    this.#add(weight);
    this.#wakeConsumer?.();
  }

  /** Lets go of everything, also of what is pushed from now on: nobody takes events any more. */
  end(): void {
    this.#hasEnded = true;
    this.#events = [];
    this.#head = 0;
    this.#add(-this.#weight);
    for (const wake of this.#wakeProducers) wake();
  }

  #add(weight: number): void {
    if (this.#weight === 0 && weight > 0) this.#together.holders += 1;
    this.#weight += weight;
    this.#together.now += weight;
    if (this.#weight === 0 && weight < 0) this.#together.holders -= 1;
  }

  /**
   * At least one event and at most `max`, in order, and no more once they have `maxBytes` of text together; none once
   * `signal` is aborted.
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
      this.#add(-next.weight);
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
   * Resolves when little is left, a 16th of the bound: how far a producer that can wait reads ahead.
   * @returns whether it had to wait.
   */
  low(signal: AbortSignal): Promise<boolean> {
    return this.#below(this.#maxWeight / 16, signal);
  }

  async #below(weight: number, signal: AbortSignal): Promise<boolean> {
    let waited = false;
    while (!this.#empty && this.#weight >= weight && !signal.aborted) {
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
