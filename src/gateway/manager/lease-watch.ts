import { finished } from 'node:stream/promises';
import { type Logger, messageOf, resourcePath, type Runtime } from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import type { LeaseKey } from '../config/lease.ts';
import { LEASE } from './lease.ts';

export interface LeaseWatchOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly client: Pick<ApiClient, 'stream'>;
  readonly lease: LeaseKey;
  /** Between the starts of two watches that fail. Milliseconds. */
  readonly retryMs: number;
}

/** A connection that was lost without a sign is replaced after this time. */
const LONGEST_MS = 60_000;

/**
 * Says when a Lease may have changed: a watch of this one object, whose events are hints and are not read. Nothing
 * depends on it but speed, since a follower also reads the Lease at intervals. So it needs no version to resume from,
 * and each new watch begins with a hint.
 */
export class LeaseWatch {
  readonly #options: LeaseWatchOptions;
  readonly #path: string;
  #failed = false;

  constructor(options: LeaseWatchOptions) {
    this.#options = options;
    this.#path = resourcePath(LEASE, { namespace: options.lease.namespace });
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
    const { client, lease, runtime } = this.#options;
    const over = new AbortController();
    void runtime.clock.sleep(LONGEST_MS, AbortSignal.any([signal, over.signal])).then(() => over.abort());
    try {
      const stream = await client.stream({
        path: this.#path,
        query: { watch: true, fieldSelector: `metadata.name=${lease.name}` },
        signal: over.signal,
      });
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
    if (!this.#failed) {
      const hint = 'the Lease cannot be watched: a released Lease is taken at the next attempt, and not at once';
      logger.warn({ lease: this.#path, error: messageOf(error) }, hint);
    }
    this.#failed = true;
  }
}
