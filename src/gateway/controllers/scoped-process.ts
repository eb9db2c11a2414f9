import type { Finish, Process, Run } from '../workqueue/work-queue.ts';
import { messageOf } from '../../core/index.ts';
import type { KeyScope } from '../handlers/key-scope.ts';

/** The finish of a dropped key: it does not run again. */
const DROPPED: Finish = { kind: 'known', failures: 'forget' };
const AGAIN_MS = 1000;

/**
 * Runs the keys of a controller and drops keys outside its namespaces, which an earlier declaration with more
 * namespaces has left in the queue or its timers. The function may not read the objects of such keys and would treat
 * them as deleted.
 */
export class ScopedProcess implements Process {
  readonly #inner: Required<Process>;
  readonly #scope: Pick<KeyScope, 'containsKey'>;
  readonly #forget: (run: Run) => Promise<void>;

  /** @param forget removes what wakes the key of a run that is dropped. If it fails, the key runs again. */
  constructor(inner: Required<Process>, scope: Pick<KeyScope, 'containsKey'>, forget: (run: Run) => Promise<void>) {
    this.#inner = inner;
    this.#scope = scope;
    this.#forget = forget;
  }

  async run(run: Run): Promise<Finish> {
    return this.#contains(run) ? this.#inner.run(run) : this.#drop(run);
  }

  runAll(runs: readonly Run[]): readonly Promise<Finish>[] {
    const own = runs.filter((run) => this.#contains(run));
    const finishes = own.length > 0 ? this.#inner.runAll(own) : [];
    return runs.map((run) => finishes[own.indexOf(run)] ?? this.#drop(run));
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

  async #drop(run: Run): Promise<Finish> {
    try {
      await this.#forget(run);
      return DROPPED;
    } catch (error) {
      return { kind: 'known', failures: 'keep', againAfterMs: AGAIN_MS, error: messageOf(error) };
    }
  }

  #contains({ key }: Run): boolean {
    return this.#scope.containsKey(key);
  }
}
