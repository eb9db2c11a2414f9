import type { Reason } from '../../contract/index.ts';
import type { Hold, HoldScope, PastOutcome } from './key-status.ts';
import type { BarrierText } from './run.ts';
import type { LowReason } from './work-queue.ts';

/** What is known of one key. */
export interface MemoryRecord {
  running?: { run: number; deadlineMs: number; nonce: string; busy: boolean; error?: string };
  dirty: boolean;
  failures: number;
  reasons: Reason[];
  queuedAtMs?: number;
  barrier?: { text: BarrierText; atMs: number };
  deadSinceMs?: number;
  tokenAtMs?: number;
  history: PastOutcome[];
}

export function emptyRecord(): MemoryRecord {
  return { dirty: false, failures: 0, reasons: [], history: [] };
}

/** A map from keys to times, read in order of time. */
export class TimeSet extends Map<string, number> {
  /** Earliest first. */
  ordered(): [string, number][] {
    return [...this].toSorted(([, a], [, b]) => a - b);
  }

  /** Earliest wins. */
  lower(key: string, atMs: number): void {
    this.set(key, Math.min(atMs, this.get(key) ?? Infinity));
  }
}

/** What Redis is to the other implementation: the state of one queue, which any number of gateways share. */
export class MemoryStore {
  readonly records = new Map<string, MemoryRecord>();
  readonly timers = new TimeSet();
  readonly debounced = new TimeSet();
  readonly inFlight = new TimeSet();
  readonly backlog = new TimeSet();
  readonly dead = new TimeSet();
  readonly queued = new TimeSet();
  readonly resting = new TimeSet();
  readonly holds = new Map<HoldScope, Hold>();
  readonly held = new Map<HoldScope, TimeSet>();
  runs = 0;
  /** When the token bucket is full again. */
  fullAtMs = 0;
  lowReason: LowReason = 'initial';

  /** Keys to run now, in order; those that are out; those that were added while they are. */
  readonly waiting = new Set<string>();
  readonly out = new Set<string>();
  readonly again = new Set<string>();
  /** Called when a key waits or a slot is free. */
  readonly listeners = new Set<() => void>();

  record(key: string): MemoryRecord {
    let record = this.records.get(key);
    if (!record) this.records.set(key, (record = emptyRecord()));
    return record;
  }

  clear(): void {
    const { records, timers, debounced, inFlight, backlog, dead, queued, resting, holds, held, waiting, again } = this;
    const sets = [timers, debounced, inFlight, backlog, dead, queued, resting];
    for (const each of [records, ...sets, holds, held, waiting, again]) each.clear();
  }
}
