import { type Clock, NewestMap } from '../../../core/index.ts';

export interface ReviewCacheOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** How long an answer is used. */
  readonly keepMs: number;
  /** How many answers are kept at most; the least recently used answer goes first. */
  readonly maxEntries: number;
}

interface Entry<Answer> {
  readonly answer: Answer;
  readonly untilMs: number;
}

/**
 * Answers of the apiserver, each for a short time. One question at a time is asked about a key. Errors are not kept.
 */
export class ReviewCache<Answer> {
  readonly #options: ReviewCacheOptions;
  /** The most recently used entry is the last. */
  readonly #entries: NewestMap<string, Entry<Answer>>;
  /** The same for the answer `undefined`, so that guesses displace no other answer. */
  readonly #unknown: NewestMap<string, Entry<Answer>>;
  readonly #pending = new Map<string, Promise<Answer>>();

  constructor(options: ReviewCacheOptions) {
    this.#options = options;
    this.#entries = new NewestMap(options.maxEntries);
    this.#unknown = new NewestMap(options.maxEntries);
  }

  /** The last answer about a key, also when it is too old to be used. */
  last(key: string): Answer | undefined {
    return this.#entries.get(key)?.answer;
  }

  /** @throws errors of `ask`. */
  async get(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    const known = this.#fresh(key);
    if (known) {
      this.#set(key, known);
      return known.answer;
    }
    const pending = this.#pending.get(key);
    if (pending) return pending;
    const asked = this.#ask(key, ask).finally(() => this.#pending.delete(key));
    this.#pending.set(key, asked);
    return asked;
  }

  #fresh(key: string): Entry<Answer> | undefined {
    const entry = this.#entries.get(key) ?? this.#unknown.get(key);
    return entry && entry.untilMs > this.#options.clock.now() ? entry : undefined;
  }

  async #ask(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    const { clock, keepMs } = this.#options;
    const answer = await ask();
    this.#set(key, { answer, untilMs: clock.now() + keepMs });
    return answer;
  }

  #set(key: string, entry: Entry<Answer>): void {
    const [entries, others] =
      entry.answer === undefined ? [this.#unknown, this.#entries] : [this.#entries, this.#unknown];
    others.delete(key);
    entries.set(key, entry);
  }
}
