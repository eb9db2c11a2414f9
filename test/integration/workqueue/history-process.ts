import { setTimeout as sleep } from 'node:timers/promises';
import { keyBackoffMs } from '../../../src/gateway/controller/workqueue/rate-limiter.ts';
import type { Finish, Ended, Process, Run } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { machineMs } from '../../harness/machine-clock.ts';

/** A run begins or ends, on the clock that all processes of a machine share. */
export type RunEvent =
  | {
      readonly event: 'start';
      readonly key: string;
      readonly run: number;
      readonly atMs: number;
      readonly deadlineMs: number;
    }
  | {
      readonly event: 'end';
      readonly key: string;
      readonly run: number;
      readonly atMs: number;
      readonly again: boolean;
    }
  /** A run is settled of which nobody told the end, nor perhaps the start: it may have been nothing but a record. */
  | { readonly event: 'lost'; readonly key: string; readonly run: number };

/** How often a key asks to be run again whose name begins with `chain/`: by nothing but its timers, and in no time. */
export const CHAIN_LENGTH = 40;

/**
 * Runs of 0 to 8 ms that succeed, fail, ask to be run again, become dead letters or never tell their end, by chance.
 */
export class HistoryProcess implements Process {
  readonly #random: () => number;
  readonly #tell: (event: RunEvent) => void;

  constructor(random: () => number, tell: (event: RunEvent) => void) {
    this.#random = random;
    this.#tell = tell;
  }

  run(runs: readonly Run[]): readonly Promise<Finish>[] {
    return runs.map((run) => this.#run(run));
  }

  async #run(given: Run): Promise<Finish> {
    const { key, run } = given;
    const [atMs, leftMs] = [machineMs(), given.deadlineMs - Date.now()];
    // Its process was stalled between the record and the run: a function refuses a trigger that has no time left.
    if (leftMs <= 0) return { kind: 'unknown' };
    this.#tell({ event: 'start', key, run, atMs, deadlineMs: atMs + leftMs });
    const random = this.#random;
    // A process is busy with something else at times, between any two steps of the queue.
    if (random() < 0.05) spin(random() * 10);
    if (random() < 0.8) await sleep(Math.floor(random() * 9));
    const finish = this.#outcome(given);
    // It may go on until its deadline: nobody knows.
    if (finish.kind !== 'ended') return finish;
    this.#tell({ event: 'end', key, run, atMs: machineMs(), again: finish.againAfterMs !== undefined });
    return finish;
  }

  async lost({ key, run, failures }: { key: string; run: number; failures: number }): Promise<Ended> {
    this.#tell({ event: 'lost', key, run });
    return { kind: 'ended', failures: 'count', againAfterMs: Math.min(keyBackoffMs(failures + 1), 2000) };
  }

  async passed(): Promise<boolean> {
    return true;
  }

  late(): void {}

  #outcome({ key, failures }: Run): Finish {
    const random = this.#random;
    if (key.startsWith('chain/')) {
      if (failures >= CHAIN_LENGTH) return { kind: 'ended', failures: 'forget' };
      return { kind: 'ended', failures: 'count', againAfterMs: Math.floor(random() * 20) };
    }
    const chance = random();
    if (chance < 0.1) {
      return {
        kind: 'ended',
        failures: 'count',
        againAfterMs: Math.min(keyBackoffMs(failures + 1), 2000),
        error: 'no',
      };
    }
    if (chance < 0.2) return { kind: 'ended', failures: 'forget', againAfterMs: Math.floor(random() * 300) };
    if (chance < 0.21) return { kind: 'ended', failures: 'keep', dead: true, error: 'never' };
    return chance < 0.212 ? { kind: 'unknown' } : { kind: 'ended', failures: 'forget' };
  }
}

function spin(ms: number): void {
  for (const end = machineMs() + ms; machineMs() < end;);
}
