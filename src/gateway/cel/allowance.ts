/** So much processor time at once, and so much each second: what is saved up is no more than the first. */
const BURST_MS = 300;
const MS_PER_SECOND = 50;
/** Nobody is held to account for less: it is what an event costs anyway. */
const FREE_MS = 1;
/** Of the burst, for which one that has used it up waits. */
const READY_AGAIN = 1 / 2;

/** How much time an expression may take in all: a twentieth of the thread's, beyond what each evaluation has free. */
export class Allowance {
  readonly #now: () => number;
  #leftMs = BURST_MS;
  #atMs: number;
  #exhausted = false;

  constructor(now: () => number) {
    this.#now = now;
    this.#atMs = now();
  }

  get exhausted(): boolean {
    if (this.#exhausted) {
      this.#refill();
      if (this.#leftMs >= BURST_MS * READY_AGAIN) this.#exhausted = false;
    }
    return this.#exhausted;
  }

  spend(ms: number): void {
    if (ms <= FREE_MS) return;
    this.#refill();
    this.#leftMs -= ms - FREE_MS;
    if (this.#leftMs <= 0) this.#exhausted = true;
  }

  #refill(): void {
    const now = this.#now();
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + ((now - this.#atMs) / 1000) * MS_PER_SECOND);
    this.#atMs = now;
  }
}
