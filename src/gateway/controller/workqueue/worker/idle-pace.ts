/** Up to this number, each queue of a gateway asks Redis as often as a single queue would. */
export const QUEUES_AT_FULL_PACE = 200;

/** One queue's share of the pace. */
export interface PaceShare {
  /** The intervals of an idle queue are this many times as long as the intervals of a single queue: 1, 2, 3 ... */
  readonly factor: number;
  /** When the queue next asks Redis. */
  nextMs(nowMs: number, intervalMs: number): number;
  leave(): void;
}

/**
 * How often the queues of a gateway ask Redis while nothing is due. The more queues a gateway has, the more seldom each
 * of them asks, so that the commands of idle queues have a bound. No event in this gateway waits for these requests:
 * they only find keys that another gateway left behind when it died. All queues ask at the same moments, because each
 * wakeup of the process costs CPU time; if there are many, a part of them asks at each moment.
 */
export class IdlePace {
  readonly #shares = new Map<number, (factor: number) => void>();
  #last = 0;
  #factor = 1;

  /** @param onChanged called with the factor when it has changed. Default: nothing happens. */
  join(onChanged: (factor: number) => void = () => {}): PaceShare {
    const number = (this.#last += 1);
    this.#shares.set(number, onChanged);
    this.#update();
    const factor = (): number => this.#factor;
    return {
      get factor() {
        return factor();
      },
      nextMs(nowMs, intervalMs) {
        const first = Math.floor(nowMs / intervalMs) + 1;
        return (first + ((factor() - ((first + number) % factor())) % factor())) * intervalMs;
      },
      leave: () => {
        if (this.#shares.delete(number)) this.#update();
      },
    };
  }

  #update(): void {
    const factor = Math.max(1, Math.ceil(this.#shares.size / QUEUES_AT_FULL_PACE));
    if (factor === this.#factor) return;
    this.#factor = factor;
    for (const onChanged of this.#shares.values()) onChanged(factor);
  }
}
