import { randomUUID } from 'node:crypto';
import { backoffMs, messageOf, type Runtime } from '../../core/index.ts';
import { isAboutOneCommand } from '../redis/redis.ts';
import { GroupCommit } from './group-commit.ts';
import { RUN_MARGIN_MS } from './queue-options.ts';
import type { Finished, FinishRequest, Start, StartRequest } from './records.ts';
import type { RedisRecords } from './redis-records.ts';
import type { Finish, Process, Run } from './run.ts';

export interface RunnerOptions {
  readonly name: string;
  readonly records: RedisRecords;
  readonly process: Process;
  readonly limits: { readonly timeoutMs: number; readonly maxBatch: number };
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly gate: RunGate;
  /** Something goes on that a stop waits for, and whose failure is worth a warning. */
  readonly track: (work: Promise<unknown>) => void;
  /** A timer was set: something is due then. */
  readonly wake: (atMs: number) => void;
}

/** Whether runs may begin in this gateway. */
export interface RunGate {
  /** Aborted when this gateway starts no more runs. */
  readonly ending: AbortSignal;
  /** Waits until runs may begin here. @returns false when none will any more. */
  readonly opened: () => Promise<boolean>;
  /** Whether no run may begin here just now. */
  readonly closed: () => boolean;
}

/** How soon a start that Redis refused is tried again. */
const START_AGAIN_MS = [20, 1000] as const;
/** A start that is refused this often for what its key's own record holds is given up for a while. */
const OWN_FAILURES = 3;

interface Started {
  readonly start: Start;
  readonly nowMs: number;
  readonly deadlineMs: number;
}

/** Tells starts of this process apart. */
const PROCESS = randomUUID();
let starts = 0;

/**
 * Takes a key that was handed out through its run: start, process, finish. Starts and finishes of many share a trip.
 */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #starts: GroupCommit<StartRequest, Started>;
  readonly #finishes: GroupCommit<FinishRequest, Finished>;
  readonly #runs: GroupCommit<Run, Finish> | undefined;
  /** Starts have failed since one last succeeded: it is logged once. */
  #failing = false;

  constructor(options: RunnerOptions) {
    const { records, process, limits, runtime } = options;
    const { clock } = runtime;
    const { timeoutMs, maxBatch } = limits;
    this.#options = options;
    // One key's record may be such that a script cannot work on it.
    const alone = { isAboutOneItem: isAboutOneCommand };
    this.#starts = new GroupCommit(async (requests) => {
      const nowMs = clock.now();
      const at = { nowMs, deadlineMs: nowMs + timeoutMs };
      return (await records.startAll(requests, at)).map((start) => ({ start, ...at }));
    }, alone);
    this.#finishes = new GroupCommit((requests) => records.finishAll(requests, clock.now()), alone);
    const runAll = process.runAll?.bind(process);
    // Runs that start together are given together; a lone run does not wait.
    if (maxBatch > 1 && runAll) this.#runs = new GroupCommit(runAll, { limit: maxBatch });
  }

  /**
   * @returns false when this gateway ended before it was decided whether the key may run: its job must not end either.
   * @throws when Redis or the apiserver failed after that: a run in flight is on record, and settled at its deadline.
   */
  async process(key: string): Promise<boolean> {
    const { process } = this.#options;
    const nonce = `${PROCESS}/${(starts += 1)}`;
    let started = await this.#start({ key, nonce });
    if (typeof started === 'object' && started.start.kind === 'barrier') {
      const { barrier } = started.start;
      if (await process.passed(barrier)) started = await this.#start({ key, nonce, passedBarrier: barrier });
    }
    if (typeof started === 'object') await this.#follow(key, started);
    return started !== 'ended';
  }

  /**
   * Starts a key, however long it takes: a job that ended without it would take the key with it. `refused`: its own
   * record is in the way. It is still on record as queued or due, and comes back when the gateway looks for keys
   * without a job.
   */
  async #start(request: StartRequest): Promise<Started | 'ended' | 'refused'> {
    const { name, gate, runtime } = this.#options;
    const { clock, logger, metrics } = runtime;
    for (let failures = 1; ; failures += 1) {
      try {
        const started = await this.#starts.submit(request);
        if (this.#failing) logger.info({ controller: name }, 'runs can be started again');
        this.#failing = false;
        return started;
      } catch (error) {
        const fields = { controller: name, error: messageOf(error) };
        if (isAboutOneCommand(error) && failures >= OWN_FAILURES) {
          logger.error({ ...fields, key: request.key }, 'Redis refuses to start a key because of its record');
          metrics.count('levelhook_refused_starts_total', { controller: name });
          return 'refused';
        }
        if (!this.#failing && !isAboutOneCommand(error)) {
          logger.warn(fields, 'runs could not be started, trying again');
          this.#failing = true;
        }
      }
      await clock.sleep(backoffMs(START_AGAIN_MS, failures), gate.ending);
      if (!(await gate.opened())) return 'ended';
    }
  }

  async #follow(key: string, { start, nowMs, deadlineMs }: Started): Promise<void> {
    const { process, wake, name, runtime } = this.#options;
    const { clock, metrics } = runtime;
    switch (start.kind) {
      case 'idle':
      case 'busy':
      case 'paused':
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
    const { name, wake } = this.#options;
    const { metrics } = this.#options.runtime;
    const { current, dead, timerMs } = await this.#finishes.submit(request);
    if (!current) metrics.count('levelhook_stale_outcomes_total', { controller: name });
    if (dead) metrics.count('levelhook_dead_letters_total', { controller: name });
    if (timerMs !== undefined) wake(timerMs);
    return current;
  }

  async #run(
    key: string,
    { run, failures, reasons, queuedAtMs }: Start & { kind: 'go' },
    { nowMs, deadlineMs }: Omit<Started, 'start'>,
  ): Promise<void> {
    const { name, process, gate, wake, runtime } = this.#options;
    const { clock, metrics } = runtime;
    if (gate.closed()) {
      // Trap: the connection broke during the script, and it was sent again to a Redis that recovery has not checked
      // yet.
      await this.finish({ key, run, finish: { kind: 'known', failures: 'keep', againAfterMs: 0 } });
      return;
    }
    if (clock.now() >= deadlineMs) {
      // This process stood still since it asked. Others take the run for lost by now, and may run the key.
      return wake(deadlineMs + RUN_MARGIN_MS);
    }
    if (queuedAtMs !== undefined) {
      metrics.observe('workqueue_queue_duration_seconds', { name }, Math.max(0, nowMs - queuedAtMs) / 1000);
    }
    const given = { key, run, failures, reasons, deadlineMs };
    // A key that brings down its gateway must not do so again and again to those that start with it.
    const finish = await (this.#runs && failures === 0 ? this.#runs.submit(given) : process.run(given));
    metrics.observe('workqueue_work_duration_seconds', { name }, (clock.now() - nowMs) / 1000);
    // Unknown: the run stays on record, and the poller finds it after its deadline.
    if (finish.kind === 'unknown') {
      if (finish.error) this.#options.track(this.finish({ key, run, finish }));
      return wake(deadlineMs + RUN_MARGIN_MS);
    }
    if (finish.kind === 'busy') wake(finish.untilMs + RUN_MARGIN_MS);
    if (finish.kind === 'known' && finish.againAfterMs !== undefined) {
      metrics.count('workqueue_retries_total', { name });
    }
    // Not waited for: it is on its way before the end of the job is, on the same connection, and if it fails the run is
    // settled at its deadline. Should the next job of the key overtake it after all, it finds the key busy.
    this.#options.track(this.finish({ key, run, finish }));
  }
}
