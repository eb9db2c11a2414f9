export interface GroupCommitOptions {
  /** Maximum of items in a call. Default 200. */
  readonly limit?: number;
}

/**
 * Commits items in groups, in order and with one call at a time. Items that are submitted during a call go into the
 * next call. So a single item does not wait, and under load the groups grow.
 */
export class GroupCommit<Item, Answer> {
  readonly #commit: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #options: GroupCommitOptions;
  readonly #waiting: Submitted<Item, Answer>[] = [];
  #running = false;

  /** @param commit returns an answer for each item, in the same order. */
  constructor(commit: (items: readonly Item[]) => Promise<readonly Answer[]>, options: GroupCommitOptions = {}) {
    this.#commit = commit;
    this.#options = options;
  }

  /** Resolves with the answer for this item, and rejects when its call fails. */
  submit(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#running) return;
      this.#running = true;
      // Items that are submitted in the same turn of the event loop go into the same call.
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
      for (const { reject } of batch) reject(error);
    }
  }
}

interface Submitted<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}
