import { type Clock, systemClock } from '../../src/core/index.ts';
import type { Finish, Ended, Process, Run } from '../../src/gateway/controller/workqueue/work-queue.ts';

export const done: Ended = { kind: 'ended', failures: 'forget' };

/** A `Process` that does what a test says and keeps what it was asked. */
export class RecordingProcess implements Process {
  /** When each run began, on the clock that was passed. */
  readonly startedAtMs: number[] = [];
  readonly runs: Run[] = [];
  /** The keys of each call. */
  readonly batches: string[][] = [];
  readonly losses: { key: string; run: number; failures: number; atMs: number }[] = [];
  readonly lates: string[] = [];
  /** Keys running now, one entry for each run. */
  readonly inFlight: string[] = [];
  /** Keys of which two runs were seen at a time. */
  readonly overlaps: string[] = [];
  onRun: (run: Run) => Finish | Promise<Finish> = () => done;
  onLost: () => Ended | Promise<Ended> = () => ({ kind: 'ended', failures: 'count', againAfterMs: 0 });
  /** Barriers that have not passed. */
  readonly unpassed = new Set<string>();
  readonly #clock: Clock;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  run(runs: readonly Run[]): readonly Promise<Finish>[] {
    this.batches.push(runs.map(({ key }) => key));
    return runs.map((run) => this.#run(run));
  }

  async #run(run: Run): Promise<Finish> {
    this.runs.push(run);
    this.startedAtMs.push(this.#clock.now());
    if (this.inFlight.includes(run.key)) this.overlaps.push(run.key);
    this.inFlight.push(run.key);
    try {
      return await this.onRun(run);
    } finally {
      this.inFlight.splice(this.inFlight.indexOf(run.key), 1);
    }
  }

  async lost(run: { key: string; run: number; failures: number }): Promise<Ended> {
    this.losses.push({ ...run, atMs: this.#clock.now() });
    return this.onLost();
  }

  async passed(barrier: string): Promise<boolean> {
    return !this.unpassed.has(barrier);
  }

  late(barrier: string): void {
    this.lates.push(barrier);
  }

  keys(): string[] {
    return this.runs.map(({ key }) => key);
  }

  runsOf(key: string): Run[] {
    return this.runs.filter((run) => run.key === key);
  }
}
