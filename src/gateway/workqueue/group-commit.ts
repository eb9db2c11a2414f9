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
 * Collects what is submitted in one turn of the event loop and commits it as one: answers of Redis come many at a time,
 * and what they set off is sent in one trip. A lone item does not wait.
 */
export class GroupCommit<Item, Answer> {
  readonly #commit: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #options: GroupCommitOptions;
  #waiting: Submitted<Item, Answer>[] = [];

  /** @param commit answers for each item, in order. */
  constructor(commit: (items: readonly Item[]) => Promise<readonly Answer[]>, options: GroupCommitOptions = {}) {
    this.#commit = commit;
    this.#options = options;
  }

  /** The answer for this item. Rejects when the call that carried it fails. */
  submit(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#waiting.length === 1) queueMicrotask(() => this.#commitAll());
    });
  }

  #commitAll(): void {
    const { limit = 200 } = this.#options;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let at = 0; at < waiting.length; at += limit) void this.#run(waiting.slice(at, at + limit));
  }

  async #run(batch: readonly Submitted<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#commit(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, at) => resolve(answers[at] as Answer));
    } catch (error) {
      if (batch.length > 1 && this.#options.isAboutOneItem?.(error)) for (const each of batch) void this.#run([each]);
      else for (const { reject } of batch) reject(error);
    }
  }
}

interface Submitted<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}
