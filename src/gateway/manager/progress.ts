import type { Clock, Logger, Metrics } from '../../core/index.ts';
import { messageOf } from '../../core/index.ts';
import type { Informer } from '../cache/informer.ts';

export interface ProgressOptions {
  readonly informers: () => readonly Pick<Informer, 'name' | 'unappliedMs' | 'view'>[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** What waits longer than this stands still. */
export const STANDSTILL_MS = 30_000;
const LOOK_MS = 5000;

/**
 * Watches whether changes get through: how old is the oldest event that is not in the cache yet, and the oldest wakeup that is in no queue
 * yet, of each view. Both are shared by all controllers, and neither may wait for long whatever a controller or an object does; so
 * a gateway in which one does says so.
 */
export class Progress {
  readonly #options: ProgressOptions;
  /** Of each view the age of its oldest wakeup, when it was last looked at. */
  readonly #outboxMs = new Map<string, number>();

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** What stands still; undefined when nothing does. */
  notReady(): string | undefined {
    for (const { name, unappliedMs } of this.#options.informers()) {
      if (unappliedMs > STANDSTILL_MS)
        return `${name}: an event waits for ${seconds(unappliedMs)} s to be in the cache`;
      const outboxMs = this.#outboxMs.get(name) ?? 0;
      if (outboxMs > STANDSTILL_MS) return `${name}: a wakeup waits for ${seconds(outboxMs)} s to be in a queue`;
    }
    return undefined;
  }

  /** Looks every five seconds until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      await this.#look().catch((error: unknown) => {
        logger.warn({ error: messageOf(error) }, 'the age of outboxes could not be read, trying again');
      });
      await clock.sleep(LOOK_MS, signal);
    }
  }

  async #look(): Promise<void> {
    const { informers, metrics } = this.#options;
    const current = informers();
    const names = new Set(current.map(({ name }) => name));
    for (const name of this.#outboxMs.keys()) if (!names.has(name)) this.#outboxMs.delete(name);
    await Promise.all(
      current.map(async ({ name, unappliedMs, view }) => {
        metrics.set('levelhook_view_oldest_unapplied_seconds', { resource: name }, unappliedMs / 1000);
        const outboxMs = (await view.outboxAgeMs()) ?? 0;
        this.#outboxMs.set(name, outboxMs);
        metrics.set('levelhook_outbox_oldest_seconds', { resource: name }, outboxMs / 1000);
      }),
    );
  }
}

const seconds = (ms: number): number => Math.round(ms / 1000);
