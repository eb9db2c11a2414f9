export interface GroupCommitOptions {
  /** Most items in a call. Default 200. */
  readonly limit?: number;
  /**
   * Whether an error is about what one item holds. The items of a call that failed so are committed again, each in a
   * call of its own, so that one item fails alone; a commit must bear to be repeated then. Default: none is.
   */
  readonly isAboutOneItem?: (error: unknown) => boolean;
}

/**
 * Commits what is submitted in groups, one call at a time and in order: what is submitted while a call is under way
 * goes with the next one. So a lone item does not wait, and the more there is to do, the larger the groups are.
 */
export class GroupCommit<Item, Answer> {
  readonly #commit: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #options: GroupCommitOptions;
  readonly #waiting: Submitted<Item, Answer>[] = [];
  #running = false;

  /** @param commit answers for each item, in order. */
  constructor(commit: (items: readonly Item[]) => Promise<readonly Answer[]>, options: GroupCommitOptions = {}) {
    this.#commit = commit;
    this.#options = options;
  }

  /** The answer for this item. Rejects when the call that carried it fails. */
  submit(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#running) return;
      this.#running = true;
      // What the same turn of the event loop submits goes along.
      queueMicrotask(() => void this.#commitAll());
    });
  }

  async #commitAll(): Promise<void> {
    const { limit = 200 } = this.#options;
    while (this.#waiting.length > 0) await this.#run(this.#waiting.splice(0, limit));
    this.#running = false;
  }

  async #run(batch: readonly Submitted<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#commit(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, at) => resolve(answers[at] as Answer));
    } catch (error) {
      const isAboutOne = batch.length > 1 && this.#options.isAboutOneItem?.(error);
      if (isAboutOne) for (const each of batch) await this.#run([each]);
      else for (const { reject } of batch) reject(error);
    }
  }
}

interface Submitted<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}
