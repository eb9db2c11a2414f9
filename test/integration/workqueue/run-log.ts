import { expect } from 'vitest';
import type { RunEvent } from './history-process.ts';

interface LoggedRun {
  readonly run: number;
  readonly startMs: number;
  readonly deadlineMs: number;
  /** Undefined when nobody has told: its process was killed, or it was of unknown outcome. */
  endMs: number | undefined;
  again: boolean;
}

/** A run blocks its key for a second after its deadline; the processes' clocks may differ by a little. */
const MARGIN_MS = 990;

/** All runs of a history, as its processes told of them. */
export class RunLog {
  readonly #runs = new Map<string, Map<number, LoggedRun>>();
  readonly #lost = new Map<string, Set<number>>();
  count = 0;

  add(event: RunEvent): void {
    if (event.event === 'lost') {
      this.#lost.set(event.key, (this.#lost.get(event.key) ?? new Set()).add(event.run));
      return;
    }
    let runs = this.#runs.get(event.key);
    if (!runs) this.#runs.set(event.key, (runs = new Map()));
    if (event.event === 'start') {
      this.count += 1;
      const { run, atMs, deadlineMs } = event;
      runs.set(run, { run, startMs: atMs, deadlineMs, endMs: undefined, again: false });
      return;
    }
    const known = runs.get(event.run);
    if (known) Object.assign(known, { endMs: event.atMs, again: event.again });
  }

  runsOf(key: string): LoggedRun[] {
    return [...(this.#runs.get(key)?.values() ?? [])].toSorted((a, b) => a.startMs - b.startMs);
  }

  /** How many run numbers of a key have been used up: by runs, and by starts on record that no process lived to run. */
  used(key: string): number {
    return new Set([...(this.#runs.get(key)?.keys() ?? []), ...(this.#lost.get(key) ?? [])]).size;
  }

  /** No two at a time, numbers that grow, and every wish to be run again fulfilled. */
  check(): void {
    for (const key of this.#runs.keys()) {
      this.runsOf(key).forEach((run, at, runs) => {
        const next = runs[at + 1];
        if (run.again) expect(next, `${key} after run ${run.run}`).toBeDefined();
        if (!next) return;
        expect(next.run, `${key}: run numbers grow, ${JSON.stringify([run, next])}`).toBeGreaterThan(run.run);
        const overMs = Math.min(run.endMs ?? Infinity, run.deadlineMs + MARGIN_MS);
        expect(next.startMs, `${key}: run ${next.run} beside run ${run.run}`).toBeGreaterThanOrEqual(overMs);
      });
    }
  }
}
