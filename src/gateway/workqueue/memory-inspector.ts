import { type Hold, type KeyList, type KeyPage, type KeyStatus, waitFor, type Wait } from './key-status.ts';
import { emptyRecord, type MemoryRecord, type MemoryStore, type TimeSet } from './memory-store.ts';
import { scopesOf } from './queue-keys.ts';
import type { Inspector } from './records.ts';

/** Reads the records in memory. */
export class MemoryInspector implements Inspector {
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  async status(key: string): Promise<KeyStatus> {
    const { records, timers, backlog, debounced, waiting, again, holds, held } = this.#store;
    const known: MemoryRecord = records.get(key) ?? emptyRecord();
    const { running, dirty, failures, reasons, history, deadSinceMs, queuedAtMs, barrier, tokenAtMs } = known;
    const timerMs = timers.get(key);
    const waits: Wait[] = [];
    if (running?.busy) waits.push({ reason: 'busy', untilMs: running.deadlineMs });
    for (const scope of scopesOf(key)) {
      const hold = holds.get(scope);
      if (hold && held.get(scope)?.has(key)) waits.push(waitFor(hold));
    }
    if (barrier && (timerMs ?? queuedAtMs) !== undefined && !running) {
      waits.push({ reason: 'barrier', sinceMs: barrier.atMs });
    }
    if (tokenAtMs !== undefined) waits.push({ reason: 'rate-limit', untilMs: tokenAtMs });
    const added = debounced.get(key);
    if (added !== undefined) waits.push({ reason: 'debounce', untilMs: added });
    return {
      key,
      queued: waiting.has(key) || again.has(key),
      ...(running ? { running: { run: running.run, deadlineMs: running.deadlineMs } } : {}),
      dirty,
      backlog: backlog.has(key),
      ...(timerMs === undefined ? {} : { timerMs: Math.floor(timerMs) }),
      waits,
      failures,
      ...(deadSinceMs === undefined ? {} : { deadSinceMs }),
      ...(queuedAtMs === undefined ? {} : { queuedAtMs }),
      reasons,
      history,
    };
  }

  async holds(): Promise<Hold[]> {
    return [...this.#store.holds.values()];
  }

  async oldestDue(nowMs: number): Promise<number | undefined> {
    const { queued, timers, backlog, debounced } = this.#store;
    const oldest = Math.min(...[queued, timers, backlog, debounced].flatMap((set) => [...set.values()]));
    return oldest <= nowMs ? oldest : undefined;
  }

  async list(list: KeyList, { offset, limit }: { offset: number; limit: number }): Promise<KeyPage> {
    const { timers, inFlight, backlog, dead, debounced, held, waiting } = this.#store;
    if (list === 'queued') {
      return { total: waiting.size, keys: [...waiting].slice(offset, offset + limit).map((key) => ({ key })) };
    }
    const sets = {
      running: [inFlight],
      timers: [timers],
      backlog: [backlog],
      dead: [dead],
      waiting: [debounced, ...held.values()],
    }[list];
    const all = sets.flatMap((set: TimeSet) => set.ordered());
    const keys = all.slice(offset, offset + limit).map(([key, atMs]) => ({ key, atMs: Math.floor(atMs) }));
    return { total: all.length, keys };
  }
}
