import type { Jobs } from './jobs.ts';
import type { MemoryStore } from './memory-store.ts';

/** client-go's queue, dirty and processing sets, over any number of gateways in this process. */
export class MemoryJobs implements Jobs {
  readonly #store: MemoryStore;
  readonly #concurrency: number;
  readonly #mine = new Set<string>();
  #work: ((key: string) => Promise<void>) | undefined;
  #paused = false;

  constructor(store: MemoryStore, concurrency: number) {
    this.#store = store;
    this.#concurrency = concurrency;
  }

  async add(keys: readonly string[]): Promise<void> {
    const { waiting, out, again } = this.#store;
    for (const key of keys) (out.has(key) ? again : waiting).add(key);
    this.#tellAll();
  }

  async missing(keys: readonly string[]): Promise<readonly string[]> {
    const { waiting, out, again } = this.#store;
    return keys.filter((key) => ![waiting, out, again].some((set) => set.has(key)));
  }

  async start(work: (key: string) => Promise<void>): Promise<void> {
    this.#work = work;
    this.#store.listeners.add(this.#pump);
    this.#pump();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#pump();
  }

  async close(force: boolean): Promise<void> {
    this.#work = undefined;
    this.#store.listeners.delete(this.#pump);
    if (force) for (const key of this.#mine) this.#end(key, true);
  }

  async waiting(): Promise<number> {
    return this.#store.waiting.size;
  }

  readonly #pump = (): void => {
    const { waiting, out } = this.#store;
    for (const key of waiting) {
      if (!this.#work || this.#paused || out.size >= this.#concurrency) return;
      waiting.delete(key);
      out.add(key);
      this.#mine.add(key);
      void this.#give(key, this.#work);
    }
  };

  async #give(key: string, work: (key: string) => Promise<void>): Promise<void> {
    await work(key);
    // Given away already when this gateway was closed in the middle.
    if (this.#mine.has(key)) this.#end(key, false);
  }

  /** @param handOn whether somebody else is to look after it. */
  #end(key: string, handOn: boolean): void {
    const { waiting, out, again } = this.#store;
    this.#mine.delete(key);
    out.delete(key);
    if (again.delete(key) || handOn) waiting.add(key);
    this.#tellAll();
  }

  #tellAll(): void {
    for (const listener of this.#store.listeners) listener();
  }
}
