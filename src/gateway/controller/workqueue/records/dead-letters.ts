import type { QueueInspector, WorkQueue } from '../work-queue.ts';

/** The part of a queue that replaying and dropping use. */
export type DeadLetterQueue = Pick<WorkQueue, 'add' | 'addLow' | 'drop'> & {
  readonly inspector: Pick<QueueInspector, 'list' | 'status'>;
};

/** Which dead letters: some by key, those of a namespace, or all. */
export type DeadLetterSelection =
  { readonly keys: readonly string[] } | { readonly namespace: string } | { readonly all: true };

const PAGE = 500;
/** More than this are queued at low priority: keys of events do not wait behind them. */
const FEW = 100;

/**
 * Runs dead letters again, with their failures forgotten. Each stays a dead letter until its run starts, so none is
 * lost on the way. Other keys are skipped.
 * @param onProgress called with how many of all have been queued, at the beginning and after each part.
 * @returns how many are run again.
 */
export async function replayDeadLetters(
  queue: DeadLetterQueue,
  selection: DeadLetterSelection,
  onProgress: (done: number, total: number) => void = () => {},
): Promise<number> {
  return queueAgain(queue, await select(queue, selection), onProgress);
}

/** Queues keys that a person has chosen. @returns how many. */
export async function queueAgain(
  queue: Pick<DeadLetterQueue, 'add' | 'addLow'>,
  keys: readonly string[],
  onProgress: (done: number, total: number) => void = () => {},
): Promise<number> {
  onProgress(0, keys.length);
  for (let at = 0; at < keys.length; at += PAGE) {
    const page = keys.slice(at, at + PAGE);
    if (keys.length > FEW) await queue.addLow(page, 'manual');
    else await queue.add(page.map((key) => ({ key, reasons: [{ type: 'manual' }] })));
    onProgress(at + page.length, keys.length);
  }
  return keys.length;
}

/** Forgets dead letters: nothing runs them until the next event. @returns how many. */
export async function dropDeadLetters(queue: DeadLetterQueue, selection: DeadLetterSelection): Promise<number> {
  const keys = await select(queue, selection);
  let dropped = 0;
  for (let at = 0; at < keys.length; at += PAGE) dropped += await queue.drop(keys.slice(at, at + PAGE));
  return dropped;
}

/** Lists all keys before the first is changed, because the list of dead letters shrinks with each. */
async function select(queue: DeadLetterQueue, selection: DeadLetterSelection): Promise<string[]> {
  if ('keys' in selection) {
    const dead: string[] = [];
    for (let at = 0; at < selection.keys.length; at += PAGE) {
      const found = await Promise.all(selection.keys.slice(at, at + PAGE).map((key) => queue.inspector.status(key)));
      dead.push(...found.filter(({ deadSinceMs }) => deadSinceMs !== undefined).map(({ key }) => key));
    }
    return dead;
  }
  const prefix = 'namespace' in selection ? `${selection.namespace}/` : '';
  const keys = new Set<string>();
  for (let offset = 0; ; offset += PAGE) {
    const page = await queue.inspector.list('dead', { offset, limit: PAGE });
    for (const { key } of page.keys) if (key.startsWith(prefix)) keys.add(key);
    if (page.keys.length < PAGE) return [...keys];
  }
}
