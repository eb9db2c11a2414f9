import { randomUUID } from 'node:crypto';
import { type Logger, messageOf } from '../../core/index.ts';
import type { View } from './view.ts';

/** This gateway as the writer of its views: the scripts refuse a writer with an ID other than the view's. */
export class GatewayWriter {
  /** Written into every view. */
  readonly id = randomUUID();
  readonly #logger: Logger;
  readonly #onReplaced: () => void;

  /** @param onReplaced another gateway has taken over the views: this one must not go on. */
  constructor(logger: Logger, onReplaced: () => void) {
    this.#logger = logger;
    this.#onReplaced = onReplaced;
  }

  /**
   * A view has refused this writer: the ID is gone with the rest of Redis' data, which recovery mends, or another
   * gateway has written its own.
   */
  async check(view: View): Promise<void> {
    try {
      const { writerId } = await view.state();
      if (writerId !== undefined && writerId !== this.id) this.#onReplaced();
    } catch (error) {
      // The next chunk that is refused asks again.
      this.#logger.warn({ resource: view.name, error: messageOf(error) }, 'the writer of a view could not be read');
    }
  }
}
