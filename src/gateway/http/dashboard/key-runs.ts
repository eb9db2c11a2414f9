import type { PastRun, QueueHistory } from '../../controller/workqueue/work-queue.ts';

type RunHistory = Pick<QueueHistory, 'runs' | 'runsOf'>;

interface Known {
  readonly runs: readonly PastRun[];
  /** The newest run of the controller that was looked at; undefined while the history was empty. */
  readonly newest: string | undefined;
}

const SHOWN = 10;
/** How many keys' runs are remembered: only open pages need them. */
const KEPT = 100;

/**
 * The last runs of keys for pages that are loaded again and again. The first look at a key reads the whole history of
 * its controller; later looks read only the new runs.
 */
export class KeyRuns {
  readonly #known = new Map<string, Known>();

  /** The newest first, 10 at most. @param id of the controller. */
  async of(id: string, history: RunHistory, key: string): Promise<readonly PastRun[]> {
    const name = `${id} ${key}`;
    const known = this.#known.get(name);
    const current = known?.newest === undefined ? await first(history, key) : await since(history, key, known);
    this.#known.delete(name);
    this.#known.set(name, current);
    for (const old of [...this.#known.keys()].slice(0, -KEPT)) this.#known.delete(old);
    return current.runs;
  }
}

async function first(history: RunHistory, key: string): Promise<Known> {
  // First: the next look reads the runs again that end after this.
  const { newest } = await history.runs({ limit: 1 });
  return { newest, runs: await history.runsOf(key) };
}

async function since(history: RunHistory, key: string, { runs: before, newest: after = '' }: Known): Promise<Known> {
  const { runs, newest } = await history.runs({ limit: SHOWN, key, after });
  // The history is gone: Redis has lost it.
  if (newest === undefined) return first(history, key);
  const all = new Map([...runs, ...before].map((run) => [`${run.run} ${run.outcome}`, run]));
  return { newest, runs: [...all.values()].slice(0, SHOWN) };
}
