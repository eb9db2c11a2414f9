import { randomUUID } from 'node:crypto';
import type { Clock, Metrics } from '../../core/index.ts';
import { GroupCommit } from './group-commit.ts';
import { FLIGHT_MARGIN_MS } from './queue-options.ts';
import type { Finished, FinishRequest, Records, Start, StartRequest } from './records.ts';
import type { Finish, Process, Run } from './run.ts';

export interface RunnerOptions {
  readonly name: string;
  readonly records: Records;
  readonly process: Process;
  readonly timeoutMs: number;
  readonly maxBatch: number;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Whether no run may begin here just now. */
  readonly closed: () => boolean;
  /** Something goes on that a stop waits for, and whose failure is worth a warning. */
  readonly track: (work: Promise<unknown>) => void;
  /** A timer was set: something is due then. */
  readonly wake: (atMs: number) => void;
}

/** Tells starts of this process apart. */
const PROCESS = randomUUID();
let starts = 0;

/** Takes a key that was handed out through its run: start, process, finish. Starts and finishes of many share a trip. */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #starts: GroupCommit<StartRequest, { start: Start; nowMs: number; deadlineMs: number }>;
  readonly #finishes: GroupCommit<FinishRequest, Finished>;
  readonly #runs: GroupCommit<Run, Finish> | undefined;

  constructor(options: RunnerOptions) {
    const { records, clock, process, timeoutMs, maxBatch } = options;
    this.#options = options;
    this.#starts = new GroupCommit(async (requests) => {
      const nowMs = clock.now();
      const at = { nowMs, deadlineMs: nowMs + timeoutMs };
      return (await records.startAll(requests, at)).map((start) => ({ start, ...at }));
    });
    this.#finishes = new GroupCommit((requests) => records.finishAll(requests, clock.now()));
    const runAll = process.runAll?.bind(process);
    // Runs that start together are given together; a lone one waits for nobody.
    if (maxBatch > 1 && runAll) this.#runs = new GroupCommit(runAll, maxBatch);
  }

  /** @throws when Redis or the apiserver failed in the middle: a run in flight is on record, and settled at its deadline. */
  async take(key: string): Promise<void> {
    const { process, wake, clock, name, metrics } = this.#options;
    const nonce = `${PROCESS}/${(starts += 1)}`;
    let { start, nowMs, deadlineMs } = await this.#starts.submit({ key, nonce });
    if (start.kind === 'barrier' && (await process.passed(start.barrier))) {
      ({ start, nowMs, deadlineMs } = await this.#starts.submit({ key, nonce, passedBarrier: start.barrier }));
    }
    switch (start.kind) {
      case 'idle':
      case 'busy':
      case 'held':
        return;
      case 'barrier':
        return wake(clock.now());
      case 'limited':
        return wake(start.untilMs);
      case 'lost': {
        metrics.count('levelhook_lost_outcomes_total', { controller: name });
        const finish = await process.lost({ key, run: start.run, failures: start.failures });
        const { run, error = 'no outcome before the deadline' } = start;
        await this.finish({ key, run, finish: { error, ...finish } });
        return;
      }
      case 'go':
        return this.#run(key, start, { nowMs, deadlineMs });
    }
  }

  /** @returns whether the run was the one in flight; if not, nothing was changed. */
  async finish(request: FinishRequest): Promise<boolean> {
    const { name, metrics, wake } = this.#options;
    const { current, dead, timerMs } = await this.#finishes.submit(request);
    if (!current) metrics.count('levelhook_stale_outcomes_total', { controller: name });
    if (dead) metrics.count('levelhook_dead_letters_total', { controller: name });
    if (timerMs !== undefined) wake(timerMs);
    return current;
  }

  async #run(
    key: string,
    { run, failures, reasons, queuedAtMs }: Start & { kind: 'go' },
    { nowMs, deadlineMs }: { nowMs: number; deadlineMs: number },
  ): Promise<void> {
    const { name, metrics, clock, process, closed, wake } = this.#options;
    if (closed()) {
      // Trap: the connection broke during the script, and it was sent again to a Redis that nobody has checked yet.
      await this.finish({ key, run, finish: { kind: 'known', failures: 'keep', againAfterMs: 0 } });
      return;
    }
    if (clock.now() >= deadlineMs) {
      // This process stood still since it asked. Others take the run for lost by now, and may run the key.
      return wake(deadlineMs + FLIGHT_MARGIN_MS);
    }
    if (queuedAtMs !== undefined) {
      metrics.observe('workqueue_queue_duration_seconds', { name }, Math.max(0, nowMs - queuedAtMs) / 1000);
    }
    const given = { key, run, failures, reasons, deadlineMs };
    // A key that brings down whoever runs it must not do so again and again to those that start with it.
    const finish = await (this.#runs && failures === 0 ? this.#runs.submit(given) : process.run(given));
    metrics.observe('workqueue_work_duration_seconds', { name }, (clock.now() - nowMs) / 1000);
    // Unknown: the flight stays on record, and the poller finds it after its deadline.
    if (finish.kind === 'unknown') {
      if (finish.error) this.#options.track(this.finish({ key, run, finish }));
      return wake(deadlineMs + FLIGHT_MARGIN_MS);
    }
    if (finish.kind === 'busy') wake(finish.untilMs + FLIGHT_MARGIN_MS);
    if (finish.kind === 'known' && finish.againAfterMs !== undefined) {
      metrics.count('workqueue_retries_total', { name });
    }
    // Not waited for: it is on its way before the end of the job is, on the same connection, and if it fails the run is
    // settled at its deadline. Should the next job of the key overtake it after all, it finds the key busy.
    this.#options.track(this.finish({ key, run, finish }));
  }
}
