import { type Clock, type Logger, messageOf } from '../../core/index.ts';

/** The least time that each part gets to stop, even if the others have used up the limit. */
const LEAST_MS = 500;

/**
 * Stops the started parts in reverse order: controller-runtime's runnable groups (pkg/manager/runnable_group.go),
 * without the groups. Stopping twice is stopping once.
 */
export class Lifecycle {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #started: { name: string; stop: () => Promise<void> }[] = [];
  #stopping: Promise<void> | undefined;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Remembers how to stop a part that was just started. */
  started(name: string, stop: () => Promise<void>): void {
    this.#started.push({ name, stop });
    // The stop came in the middle of the start: only this function can stop the parts that start after it.
    if (this.#stopping) void this.#stopOne({ name, stop }, 5000);
  }

  /**
   * Stops all parts, last first, within `limitMs` in total, because a pod is killed at the end of its grace period.
   * While Redis and the apiserver are away, parts may have to be abandoned. A part that fails or runs out of time does
   * not keep the others from stopping.
   */
  stop(limitMs: number): Promise<void> {
    this.#stopping ??= this.#stopAll(limitMs);
    return this.#stopping;
  }

  async #stopAll(limitMs: number): Promise<void> {
    const endMs = this.#clock.now() + limitMs;
    for (const part of this.#started.toReversed()) {
      await this.#stopOne(part, Math.max(LEAST_MS, endMs - this.#clock.now()));
    }
  }

  async #stopOne({ name, stop }: { name: string; stop: () => Promise<void> }, limitMs: number): Promise<void> {
    const limit = new AbortController();
    const late = async (): Promise<void> => {
      await this.#clock.sleep(limitMs, limit.signal);
      if (!limit.signal.aborted)
        this.#logger.warn({ part: name, limitMs }, 'a part did not stop in time, stopping the next part');
    };
    const stopped = stop().catch((error: unknown) => {
      this.#logger.warn({ part: name, error: messageOf(error) }, 'a part failed to stop');
    });
    await Promise.race([stopped, late()]);
    limit.abort();
  }
}
