import { messageOf, NewestMap, type Runtime } from '../../../core/index.ts';
import type { Reason } from '../../../contract/index.ts';
import { GroupCommit } from './group-commit.ts';
import { BARRIER_AGAIN_MS, RUN_MARGIN_MS } from './queue-options.ts';
import type { OwnRuns } from './own-runs.ts';
import type { EndedRun } from './past-run.ts';
import type { Finished, FinishRequest, Start, StartTimes } from './records.ts';
import type { RedisRecords } from './redis-records.ts';
import type { Finish, Process, Run } from './run.ts';
import { type Decided, type RunGate, Starter } from './starter.ts';

export interface RunnerOptions {
  readonly name: string;
  readonly records: RedisRecords;
  readonly process: Process;
  readonly limits: { readonly timeoutMs: number; readonly concurrency: number; readonly maxBatch: number };
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly gate: RunGate;
  readonly ownRuns: OwnRuns;
  readonly on: RunnerEvents;
}

export interface RunnerEvents {
  /** Work began that a stop waits for. Its failure is logged as a warning. */
  readonly work: (work: Promise<unknown>) => void;
  /** A timer was set: something is due then. */
  readonly due: (atMs: number) => void;
  /** Keys are ready to run, and no gateway has taken them. */
  readonly ready: (keys: readonly string[]) => void;
  /** A finish has been answered. */
  readonly finished: (ended: EndedRun, finished: Finished) => void;
  /** A run begins. @param waitedMs the time since its key was added. */
  readonly started: (waitedMs: number) => void;
  readonly ended: (tookMs: number, hasFailed: boolean) => void;
}

/** Takes keys through their runs: start, process, finish. Many starts and finishes share a round trip. */
export class Runner {
  readonly #options: RunnerOptions;
  /** Labels of the metrics: client-go names the queue, controller-runtime the controller. */
  readonly #labels: { readonly name: string; readonly controller: string };
  readonly starter: Starter;
  readonly #finishes: GroupCommit<FinishRequest, Finished>;
  /** The barriers of keys whose last run ended here, until the key starts here again. */
  readonly #barriers = new NewestMap<string, string>(MOST_REMEMBERED);
  /** Keys that other gateways should start first, because their last run here got no answer. */
  readonly #elsewhere = new NewestMap<string, true>(MOST_REMEMBERED);

  constructor(options: RunnerOptions) {
    const { name, records, limits, runtime, gate, on } = options;
    this.#options = options;
    this.#labels = { name, controller: name };
    this.starter = new Starter({
      name,
      records,
      limits,
      runtime,
      gate,
      on: {
        decided: (decided, times) => this.#follow(decided, times),
        full: on.ready,
        work: on.work,
        passedBarrier: (key) => this.#passedBarrier(key),
      },
    });
    this.#finishes = new GroupCommit((requests) => this.#finishAll(requests));
  }

  /**
   * Whether other gateways should start this key first, because its last run here got no answer. True once for each
   * such run.
   */
  passOn(key: string): boolean {
    return this.#elsewhere.delete(key);
  }

  /**
   * @returns whether the run was the one in flight; if not, nothing was changed.
   * @throws Error when the key's record cannot be read, or Redis refuses to write.
   */
  async finish(request: FinishRequest): Promise<boolean> {
    const { name, on } = this.#options;
    const { metrics } = this.#options.runtime;
    const { current, dead, timerMs, unreadable } = await this.#finishes.submit(request);
    if (unreadable !== undefined) throw new Error(unreadable);
    if (!current && request.ended) metrics.count('levelhook_stale_outcomes_total', { controller: name });
    if (dead) metrics.count('levelhook_dead_letters_total', { controller: name });
    if (timerMs !== undefined) on.due(timerMs);
    return current;
  }

  async #finishAll(requests: readonly FinishRequest[]): Promise<Finished[]> {
    const { records, ownRuns, runtime, on } = this.#options;
    // A start that is taken back has no `ended`. It may have the number of a run here that Redis has lost, which goes
    // on.
    for (const request of requests) if (request.ended) ownRuns.finish(request);
    const answer = records.finishAll(requests, runtime.clock.now(), ownRuns);
    for (const { key, run, finish } of requests) {
      if (finish.kind === 'ended' && finish.barrier !== undefined) this.#barriers.set(key, finish.barrier);
      if (finish.kind === 'unknown' || (finish.kind === 'ended' && finish.elsewhere)) this.#elsewhere.set(key, true);
      // A start that begins now is sent after the finish, on the same connection.
      this.starter.release(key, run);
    }
    const finished = await answer;
    requests.forEach(({ ended }, at) => {
      const each = finished[at];
      if (ended && each) on.finished(ended, each);
    });
    const ready = requests.flatMap(({ key }, at) => (finished[at]?.ready ? [key] : []));
    if (ready.length > 0) on.ready(ready);
    return finished;
  }

  #passedBarrier(key: string): Promise<string | undefined> | undefined {
    const barrier = this.#barriers.get(key);
    if (barrier === undefined) return undefined;
    // If the check fails, the key waits for its barrier, and the poller checks it again.
    const check = async (): Promise<string | undefined> => {
      const hasPassed = await this.#options.process.passed(barrier).catch(() => false);
      return hasPassed ? barrier : undefined;
    };
    return check();
  }

  #follow(decided: readonly Decided[], times: StartTimes): void {
    const { limits, process, ownRuns, on } = this.#options;
    const together: Started[] = [];
    for (const { request, start } of decided) {
      const { key } = request;
      switch (start.kind) {
        case 'barrier':
          // If the key does not start now, its timer brings it back.
          on.due(times.nowMs + BARRIER_AGAIN_MS);
          on.work(this.#askAgain(request, start.barrier));
          break;
        case 'limited':
          on.due(start.untilMs);
          break;
        case 'lost':
          on.work(this.#settle(key, start));
          break;
        case 'go': {
          this.#barriers.delete(key);
          this.#elsewhere.delete(key);
          const heldMs = ownRuns.heldUntil({ key, run: start.run }, times.nowMs);
          if (heldMs !== undefined) {
            // Redis has lost the record of a run in flight, and recovery has not noticed yet.
            this.#putOff({ key, run: start.run, nonce: request.nonce }, heldMs - times.nowMs);
            break;
          }
          const { run, incarnation, failures, reasons, queuedAtMs, heldAtMs, recorded } = start;
          const begun = { key, run, incarnation, failures, reasons, deadlineMs: times.deadlineMs };
          const started = { run: begun, nonce: request.nonce, queuedAtMs, heldAtMs, recorded };
          // A key that has failed runs alone: if it crashes its function, no other key of a batch fails with it.
          if (failures === 0) together.push(started);
          else this.#run([started], times);
          break;
        }
        default:
      }
    }
    const size = process.runAll ? limits.maxBatch : 1;
    for (let at = 0; at < together.length; at += size) this.#run(together.slice(at, at + size), times);
  }

  /**
   * Asks again for a key once its barrier has passed. If it has not, or the check fails, the timer of the key brings it
   * back.
   */
  async #askAgain(request: Decided['request'], barrier: string): Promise<void> {
    if (await this.#options.process.passed(barrier)) {
      this.starter.enterAgain({ ...request, passedBarrier: barrier });
    }
  }

  async #settle(key: string, { run, failures, error }: Start & { kind: 'lost' }): Promise<void> {
    const { name, process, runtime } = this.#options;
    runtime.metrics.count('levelhook_lost_outcomes_total', { controller: name });
    const finish = {
      error: error ?? 'no outcome before the deadline',
      ...(await process.lost({ key, run, failures })),
    };
    const atMs = runtime.clock.now();
    const ended = { key, run, finish, atMs, lost: true, attempt: failures + 1 } as const;
    await this.finish({ key, run, finish, ended });
  }

  #run(started: readonly Started[], { nowMs, deadlineMs }: StartTimes): void {
    const { name, process, gate, ownRuns, on, runtime } = this.#options;
    const { clock, metrics } = runtime;
    if (gate.closed()) {
      // Trap: the connection broke during the script, and it was sent again to a Redis that recovery has not checked
      // yet.
      for (const { run, nonce } of started) this.#putOff({ key: run.key, run: run.run, nonce }, 0);
      return;
    }
    if (!ownRuns.mayBegin(clock.now())) {
      // This process was frozen, or Redis did not answer it. It must announce itself to the others again before it
      // starts a run.
      for (const { run, nonce } of started) this.#putOff({ key: run.key, run: run.run, nonce }, BEGIN_AGAIN_MS);
      return;
    }
    if (clock.now() >= deadlineMs) {
      // This process was frozen after its request. Other gateways take the runs for lost by now, and may run the keys.
      for (const { run } of started) this.starter.release(run.key, run.run);
      return on.due(deadlineMs + RUN_MARGIN_MS);
    }
    for (const { run, queuedAtMs, heldAtMs, recorded } of started) {
      const controller = { controller: name };
      if (heldAtMs !== undefined) {
        metrics.observe('levelhook_barrier_wait_seconds', controller, Math.max(0, nowMs - heldAtMs) / 1000);
      }
      if (queuedAtMs === undefined) continue;
      const waitedMs = Math.max(0, nowMs - queuedAtMs);
      metrics.observe('workqueue_queue_duration_seconds', this.#labels, waitedMs / 1000);
      // The oldest reason comes first, and the wait counts from it.
      if (recorded !== '' && isEvent(run.reasons[0])) {
        metrics.observe('levelhook_event_to_reconcile_seconds', controller, waitedMs / 1000);
      }
      on.started(waitedMs);
    }
    const runs = started.map(({ run }) => run);
    for (const run of runs) ownRuns.begin(run, nowMs);
    const together = runs.length > 1 ? process.runAll?.(runs) : undefined;
    const finishes = together ?? runs.map((run) => process.run(run));
    started.forEach((each, at) => on.work(this.#end(each, finishes[at] ?? NO_FINISH, nowMs)));
  }

  /**
   * Takes back a start that is on record, so that its run does not begin. The nonce protects a later start of the key.
   */
  #putOff(start: Pick<FinishRequest, 'key' | 'run' | 'nonce'>, againAfterMs: number): void {
    this.#options.on.work(this.finish({ ...start, finish: { kind: 'ended', failures: 'keep', againAfterMs } }));
  }

  async #end({ run, queuedAtMs, recorded }: Started, finishing: Promise<Finish>, startedMs: number): Promise<void> {
    const { on, runtime } = this.#options;
    const { clock, metrics } = runtime;
    const finish = await finishing.catch((error: unknown) => ({ kind: 'unknown' as const, error: messageOf(error) }));
    const nowMs = clock.now();
    metrics.observe('workqueue_work_duration_seconds', this.#labels, (nowMs - startedMs) / 1000);
    on.ended(nowMs - startedMs, hasFailed(finish));
    // Unknown: the run stays on record, and the poller finds it after its deadline.
    if (finish.kind === 'unknown') on.due(run.deadlineMs + RUN_MARGIN_MS);
    if (finish.kind === 'accepted') on.due(finish.untilMs + RUN_MARGIN_MS);
    if (finish.kind === 'ended' && finish.againAfterMs !== undefined) {
      metrics.count('workqueue_retries_total', this.#labels);
    }
    // If this finish fails, the run is settled at its deadline.
    const ended = {
      key: run.key,
      run: run.run,
      finish,
      atMs: nowMs,
      attempt: run.failures + 1,
      tookMs: nowMs - startedMs,
      waitedMs: queuedAtMs === undefined ? undefined : Math.max(0, startedMs - queuedAtMs),
      recorded,
      reasons: run.reasons,
    };
    await this.finish({ key: run.key, run: run.run, finish, ended });
  }
}

function hasFailed(finish: Finish): boolean {
  if (finish.kind !== 'ended') return finish.kind === 'unknown';
  return finish.failures === 'count' || finish.dead === true;
}

/** Whether a key runs because of a watched event, rather than a request, a requeue or a resync. */
function isEvent(reason: Reason | undefined): boolean {
  return reason !== undefined && ['added', 'updated', 'deleted'].includes(reason.type);
}

interface Started {
  readonly run: Run;
  /** The nonce of its start. */
  readonly nonce: string;
  readonly queuedAtMs: number | undefined;
  readonly heldAtMs: number | undefined;
  readonly recorded: string;
}

/** How many keys are remembered. A forgotten key costs a second request for its start, or starts here again. */
const MOST_REMEMBERED = 10_000;

/** How soon a key is started again after a frozen process has put it off. */
const BEGIN_AGAIN_MS = 1000;

const NO_FINISH: Promise<Finish> = Promise.resolve({ kind: 'unknown' });
