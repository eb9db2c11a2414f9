/**
 * Runs a limited number of tasks at a time, and gives free places to the waiting tenants in turn. The tasks of one
 * tenant run in their order. So a task waits for at most one task of each other tenant before its own tenant's turn.
 */
export class TenantTurns {
  #free: number;
  /** The tasks that wait, by tenant. The tenant whose turn it is comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** @param atOnce how many tasks may run at a time. */
  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** @throws what `work` throws. */
  async run<T>(tenant: string, work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(tenant);
    try {
      return await work();
    } finally {
      this.#passOn();
    }
  }

  #turn(tenant: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(tenant);
    if (waiting) waiting.push(resolve);
    else this.#waiting.set(tenant, [resolve]);
    return promise;
  }

  /** Gives the place of a task that has ended to the next one. */
  #passOn(): void {
    for (const [tenant, [next, ...others]] of this.#waiting) {
      this.#waiting.delete(tenant);
      if (others.length > 0) this.#waiting.set(tenant, others);
      next?.();
      return;
    }
    this.#free += 1;
  }
}
