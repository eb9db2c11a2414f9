import type { KeyList, OpenCircuit, Pause } from './key-status.ts';
import type { QueueInspector, WorkQueue } from './work-queue.ts';

/** The lists whose sizes decide about the state of a controller. */
export const STATE_LISTS = ['queued', 'running', 'failing', 'dead'] as const satisfies readonly KeyList[];

/** The facts about a controller that its queue knows. */
export interface QueueFacts<L extends KeyList = (typeof STATE_LISTS)[number]> {
  readonly pauses: readonly Pause[];
  readonly circuit: OpenCircuit | undefined;
  /** How many keys each list has. */
  readonly sizes: Readonly<Record<L, number>>;
}

/** Asks Redis. */
export async function queueFacts<L extends KeyList>(
  queue: Pick<WorkQueue, 'circuit'> & { readonly inspector: Pick<QueueInspector, 'list' | 'pauses'> },
  lists: readonly L[],
): Promise<QueueFacts<L>> {
  const [pauses, ...totals] = await Promise.all([
    queue.inspector.pauses(),
    ...lists.map(async (list) => [list, (await queue.inspector.list(list, { offset: 0, limit: 1 })).total] as const),
  ]);
  return { pauses, circuit: queue.circuit, sizes: Object.fromEntries(totals) as QueueFacts<L>['sizes'] };
}
