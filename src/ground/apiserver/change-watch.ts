import { finished } from 'node:stream/promises';
import { type Logger, messageOf, type Runtime } from '../../core/index.ts';
import type { ApiClient, Query } from './api-client.ts';

export interface ChangeWatchOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly client: Pick<ApiClient, 'stream'>;
  /** Of the list of objects. */
  readonly path: string;
  /** Which of them. */
  readonly query: Query;
  /** Between the starts of two watches that fail. Milliseconds. */
  readonly retryMs: number;
  /** The consequence of a failed watch, for the log line: the work that is slower without it. */
  readonly hint: string;
}

/** A connection that was lost without a sign is replaced after this time. */
const LONGEST_MS = 60_000;

/**
 * Says when objects may have changed: a watch whose events are hints and are not read. Nothing depends on it but speed,
 * since its user also reads the objects at intervals. So it needs no version to resume from, and each new watch begins
 * with a hint for each object that there is.
 */
export class ChangeWatch {
  readonly #options: ChangeWatchOptions;
  #failed = false;

  constructor(options: ChangeWatchOptions) {
    this.#options = options;
  }

  /** Calls `onChange` at each hint, until `signal` is aborted. Never rejects. */
  async run(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { runtime, retryMs } = this.#options;
    const { clock } = runtime;
    while (!signal.aborted) {
      const startedMs = clock.now();
      await this.#once(onChange, signal);
      await clock.sleep(Math.max(0, startedMs + retryMs - clock.now()), signal);
    }
  }

  async #once(onChange: () => void, signal: AbortSignal): Promise<void> {
    const { client, path, query, runtime } = this.#options;
    const over = new AbortController();
    void runtime.clock.sleep(LONGEST_MS, AbortSignal.any([signal, over.signal])).then(() => over.abort());
    try {
      const stream = await client.stream({ path, query: { ...query, watch: true }, signal: over.signal });
      stream.on('data', () => {
        this.#failed = false;
        onChange();
      });
      await finished(stream);
    } catch (error) {
      if (!over.signal.aborted) this.#report(error, runtime.logger);
    } finally {
      over.abort();
    }
  }

  /** Once, until a watch has shown an event. */
  #report(error: unknown, logger: Logger): void {
    const { hint, path } = this.#options;
    if (!this.#failed) logger.warn({ path, error: messageOf(error) }, hint);
    this.#failed = true;
  }
}
