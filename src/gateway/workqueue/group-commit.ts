/**
 * Collects what is submitted while a call is under way and gives it to the next call as one: a lone item waits for
 * nobody, and under load a trip to Redis carries many. What a database calls group commit.
 */
export class GroupCommit<Item, Answer> {
  readonly #commit: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #limit: number;
  readonly #atATime: number;
  #waiting: Submitted<Item, Answer>[] = [];
  #running = 0;

  /**
   * @param commit answers for each item, in order.
   * @param limit most items in a call.
   * @param atATime most calls under way. Two: one is on its way while the other's answers are worked on.
   */
  constructor(commit: (items: readonly Item[]) => Promise<readonly Answer[]>, limit = 200, atATime = 2) {
    this.#commit = commit;
    this.#limit = limit;
    this.#atATime = atATime;
  }

  /** The answer for this item. Rejects when the call that carried it fails. */
  submit(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      // Behind what this turn of the event loop still submits: answers of Redis come many at a time.
      if (this.#waiting.length === 1) queueMicrotask(() => this.#pump());
    });
  }

  #pump(): void {
    while (this.#running < this.#atATime && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#limit);
      this.#running += 1;
      void this.#run(batch);
    }
  }

  async #run(batch: readonly Submitted<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#commit(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, at) => resolve(answers[at] as Answer));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#running -= 1;
      this.#pump();
    }
  }
}

interface Submitted<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}
