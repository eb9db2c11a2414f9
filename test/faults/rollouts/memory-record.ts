import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../../bench/median.ts';
import { residentMiB } from '../../harness/process-memory.ts';

const EVERY_MS = 1000;

/** The memory of processes over time, each by the name that it keeps when it is killed and started again. */
export class MemoryRecord {
  readonly #samples = new Map<string, number[]>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  /** @param pids those that run now, by name */
  constructor(pids: () => ReadonlyMap<string, number>) {
    this.#ended = this.#record(pids);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  /** The median of each quarter of the time, in MiB, by name. */
  quarters(): ReadonlyMap<string, readonly number[]> {
    return new Map(
      [...this.#samples].map(([name, samples]) => {
        const part = (at: number): number[] =>
          samples.slice(Math.floor((samples.length * at) / 4), Math.floor((samples.length * (at + 1)) / 4));
        return [name, [0, 1, 2, 3].map((at) => Math.round(median(part(at))))];
      }),
    );
  }

  async #record(pids: () => ReadonlyMap<string, number>): Promise<void> {
    while (!this.#stop.signal.aborted) {
      for (const [name, pid] of pids()) {
        // It may have just ended.
        const size = await residentMiB(pid).catch(() => undefined);
        if (size === undefined || Number.isNaN(size)) continue;
        const samples = this.#samples.get(name) ?? [];
        samples.push(size);
        this.#samples.set(name, samples);
      }
      await sleep(EVERY_MS, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }
}
