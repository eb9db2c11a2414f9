/**
 * Collects what is submitted in one turn of the event loop and commits it as one: answers of Redis come many at a time, and
 * what they set off is sent in one trip. A lone item waits for nobody.
 */
export class GroupCommit<Item, Answer> {
  readonly #commit: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #limit: number;
  #waiting: Submitted<Item, Answer>[] = [];

  /** @param commit answers for each item, in order. @param limit most items in a call. */
  constructor(commit: (items: readonly Item[]) => Promise<readonly Answer[]>, limit = 200) {
    this.#commit = commit;
    this.#limit = limit;
  }

  /** The answer for this item. Rejects when the call that carried it fails. */
  submit(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#waiting.length === 1) queueMicrotask(() => this.#commitAll());
    });
  }

  #commitAll(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let at = 0; at < waiting.length; at += this.#limit) void this.#run(waiting.slice(at, at + this.#limit));
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
