/**
 * Runs a limited number of tasks at a time, and gives free places to the waiting tenants in turn. The tasks of one
 * tenant begin in their order. So a task waits for at most one task of each other tenant before its own tenant's turn.
 */
export class TenantTurns {
  #free: number;
  readonly #mostOfTenant: number;
  /** How many tasks of each tenant run. */
  readonly #running = new Map<string, number>();
  /** The tasks that wait, by tenant. The tenant whose turn it is comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /**
   * @param atOnce how many tasks may run at a time.
   * @param mostOfTenant how many of them may be one tenant's. Default: all.
   */
  constructor(atOnce: number, mostOfTenant = atOnce) {
    this.#free = atOnce;
    this.#mostOfTenant = mostOfTenant;
  }

  /** @throws what `work` throws. */
  async run<T>(tenant: string, work: () => Promise<T>): Promise<T> {
    if (this.#mayBegin(tenant)) this.#begin(tenant);
    else await this.#turn(tenant);
    try {
      return await work();
    } finally {
      this.#end(tenant);
    }
  }

  #mayBegin(tenant: string): boolean {
    return this.#free > 0 && (this.#running.get(tenant) ?? 0) < this.#mostOfTenant;
  }

  #begin(tenant: string): void {
    this.#free -= 1;
    this.#running.set(tenant, (this.#running.get(tenant) ?? 0) + 1);
  }

  /** Resolves when the task has begun. */
  #turn(tenant: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(tenant);
    if (waiting) waiting.push(resolve);
    else this.#waiting.set(tenant, [resolve]);
    return promise;
  }

  /** Gives the place of a task that has ended to the next one. */
  #end(ended: string): void {
    this.#free += 1;
    const left = (this.#running.get(ended) ?? 0) - 1;
    if (left > 0) this.#running.set(ended, left);
    else this.#running.delete(ended);
    for (const [tenant, tasks] of this.#waiting) {
      if (!this.#mayBegin(tenant)) continue;
      const next = tasks.shift();
      this.#waiting.delete(tenant);
      if (tasks.length > 0) this.#waiting.set(tenant, tasks);
      this.#begin(tenant);
      next?.();
      return;
    }
  }
}
