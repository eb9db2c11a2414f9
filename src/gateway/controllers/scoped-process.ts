import type { Finish, Process, Run } from '../workqueue/work-queue.ts';
import type { KeyScope } from '../handlers/key-scope.ts';

/** Nothing is to be done for it, now or later. */
const DROPPED: Finish = { kind: 'known', failures: 'forget' };

/**
 * Runs the keys of a controller, and drops those that are none of its keys any more: an earlier declaration, of more
 * namespaces, has left them in the queue, timers included. Its function may not read their objects, and would take that
 * for their absence.
 */
export class ScopedProcess implements Process {
  readonly #inner: Required<Process>;
  readonly #scope: Pick<KeyScope, 'containsKey'>;

  constructor(inner: Required<Process>, scope: Pick<KeyScope, 'containsKey'>) {
    this.#inner = inner;
    this.#scope = scope;
  }

  async run(run: Run): Promise<Finish> {
    return this.#contains(run) ? this.#inner.run(run) : DROPPED;
  }

  async runAll(runs: readonly Run[]): Promise<readonly Finish[]> {
    const own = runs.filter((run) => this.#contains(run));
    const finishes = own.length > 0 ? await this.#inner.runAll(own) : [];
    return runs.map((run) => (this.#contains(run) ? (finishes[own.indexOf(run)] ?? { kind: 'unknown' }) : DROPPED));
  }

  lost(run: Parameters<Process['lost']>[0]): ReturnType<Process['lost']> {
    return this.#inner.lost(run);
  }

  passed(barrier: string): Promise<boolean> {
    return this.#inner.passed(barrier);
  }

  late(barrier: string): void {
    this.#inner.late(barrier);
  }

  #contains({ key }: Run): boolean {
    return this.#scope.containsKey(key);
  }
}
