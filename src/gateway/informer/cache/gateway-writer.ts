import { randomUUID } from 'node:crypto';
import { type Logger, messageOf } from '../../../core/index.ts';
import type { View } from './view.ts';

/** A time during which this gateway leads, and is the writer of all views. */
export interface Term {
  /** Written into every view: the scripts refuse a writer with another ID. Each term has its own. */
  readonly writerId: string;
  /** Aborted when the term ends. */
  readonly signal: AbortSignal;
  /** Whether the term has ended, by the clock: after a freeze, a process sees it here before the signal is aborted. */
  readonly isOver: () => boolean;
}

export interface GatewayWriterOptions {
  readonly logger: Logger;
  /** A view carries the ID of another gateway, which has taken over, or has not noticed yet that it no longer leads. */
  readonly onReplaced: () => void;
  /** Asks the leader for an event that shows how current a view is. Default: does nothing. */
  readonly askLeader?: (viewPrefix: string) => void;
}

/** This gateway as the writer of its views: one gateway of a deployment leads, and writes; the others follow. */
export class GatewayWriter {
  readonly #options: GatewayWriterOptions;
  #term: Term | undefined;

  constructor(options: GatewayWriterOptions) {
    this.#options = options;
  }

  /** The present term; undefined while this gateway follows. */
  get term(): Term | undefined {
    return this.#term?.isOver() ? undefined : this.#term;
  }

  /**
   * Begins a term.
   * @param signal ends it.
   * @param isLeading whether this gateway leads, by the clock. Default: it does.
   */
  begin(signal: AbortSignal, isLeading: () => boolean = () => true): Term {
    this.#term = { writerId: randomUUID(), signal, isOver: () => signal.aborted || !isLeading() };
    return this.#term;
  }

  /**
   * A view has refused this writer: the ID is gone with the rest of Redis' data, which recovery mends, or another
   * gateway has written its own.
   */
  async check(view: View): Promise<void> {
    const { term } = this;
    if (!term) return;
    try {
      const { writerId } = await view.record.state();
      if (writerId !== undefined && writerId !== term.writerId && this.term === term) this.#options.onReplaced();
    } catch (error) {
      // The next chunk that is refused asks again.
      this.#options.logger.warn(
        { resource: view.name, error: messageOf(error) },
        'the writer of a view could not be read',
      );
    }
  }

  /** Asks the leader for an event that shows how current a view is. */
  requestProgress(view: View): void {
    this.#options.askLeader?.(view.location.prefix);
  }
}
