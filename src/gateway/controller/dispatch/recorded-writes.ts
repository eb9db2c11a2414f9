import { type Clock, formatKind, type GroupVersionKind } from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import type { View } from '../../informer/cache/view.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { WriteRecords } from '../workqueue/records/write-records.ts';

/** The target of a write, as far as it is known before the write is sent. */
export interface WriteTarget extends GroupVersionKind {
  /** Absent for a cluster-scoped kind, and for all namespaces. */
  readonly namespace?: string;
}

/** One entry of the record of a run that writes through the gateway, stored as JSON. */
export type WriteEntry =
  /** It was sent, or was about to be, and there is no answer that says whether it took effect. */
  | { readonly open: WriteTarget }
  /** It took effect, and the answer does not name the objects. */
  | { readonly unclear: WriteTarget }
  | { readonly done: readonly Write[] };

/** All that a run has written through the gateway. */
export interface Recorded {
  readonly writes: readonly Write[];
  /** Whether a write to a cached kind has no answer. */
  readonly isUnanswered: boolean;
  /** Whether there are writes to cached kinds that are not among `writes`. */
  readonly isUnclear: boolean;
}

/** Reads the records of the runs of one controller, which writes through the gateway. */
export class RecordedWrites {
  readonly #writeRecords: WriteRecords;
  readonly #views: readonly View[];
  readonly #clock: Pick<Clock, 'now'>;
  readonly #budget: Pick<CpuBudget, 'inTurn'>;

  /** @param budget pays for reading the records. */
  constructor(
    writeRecords: WriteRecords,
    views: readonly View[],
    { clock, budget }: { readonly clock: Pick<Clock, 'now'>; readonly budget: Pick<CpuBudget, 'inTurn'> },
  ) {
    this.#writeRecords = writeRecords;
    this.#views = views;
    this.#clock = clock;
    this.#budget = budget;
  }

  /** Ends the writes of a run that has ended, and returns them. @throws when Redis does not answer */
  async end(run: { key: string; run: number; deadlineMs: number }): Promise<Recorded> {
    const { writes, more } = await this.#writeRecords.endAll(run, run.deadlineMs - this.#clock.now());
    return this.#budget.inTurn(() => this.#read(writes, more));
  }

  #read(writes: readonly string[], more: number): Recorded {
    const done: Write[] = [];
    let [isUnanswered, isUnclear] = [false, more > 0];
    for (const text of writes) {
      const entry = JSON.parse(text) as WriteEntry;
      if ('done' in entry) done.push(...entry.done);
      else if ('open' in entry) isUnanswered ||= this.#isCached(entry.open);
      else isUnclear ||= this.#isCached(entry.unclear);
    }
    return { writes: done, isUnanswered, isUnclear };
  }

  #isCached(target: WriteTarget): boolean {
    const { namespace } = target;
    return this.#views.some(
      (view) =>
        formatKind(view.resource) === formatKind(target) && (namespace === undefined || view.contains(namespace)),
    );
  }
}
