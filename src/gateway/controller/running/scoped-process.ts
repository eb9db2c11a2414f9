import type { Finish, Process, Run } from '../workqueue/work-queue.ts';
import type { KeyScope } from '../handlers/key-scope.ts';

/** The finish of a dropped key: it does not run again. */
const DROPPED: Finish = { kind: 'ended', failures: 'forget', sent: false };

/**
 * Runs the keys of a controller and drops keys outside its namespaces, which an earlier declaration with more
 * namespaces has left in the queue or its timers. The function may not read the objects of such keys and would treat
 * them as deleted.
 */
export class ScopedProcess implements Process {
  readonly #inner: Process;
  readonly #scope: Pick<KeyScope, 'containsKey'>;

  constructor(inner: Process, scope: Pick<KeyScope, 'containsKey'>) {
    this.#inner = inner;
    this.#scope = scope;
  }

  run(runs: readonly Run[]): readonly Promise<Finish>[] {
    const own = runs.filter((run) => this.#scope.containsKey(run.key));
    const finishes = own.length > 0 ? this.#inner.run(own) : [];
    return runs.map((run) => finishes[own.indexOf(run)] ?? Promise.resolve(DROPPED));
  }

  lost(run: Parameters<Process['lost']>[0]): ReturnType<Process['lost']> {
    return this.#inner.lost(run);
  }

  passed(barrier: string): Promise<boolean | undefined> {
    return this.#inner.passed(barrier);
  }

  late(barrier: string): void {
    this.#inner.late(barrier);
  }
}
