import { randomUUID } from 'node:crypto';
import { backoffMs, messageOf, NewestMap, type Runtime } from '../../../../core/index.ts';
import type { Reason } from '../../../../contract/index.ts';
import { BacklogTurn } from './backlog-turn.ts';
import type { BarrierChecks } from './barrier-checks.ts';
import { batchesOf } from './batches.ts';
import { GroupCommit } from './group-commit.ts';
import type { OwnRuns } from '../records/own-runs.ts';
import { BARRIER_AGAIN_MS, RUN_MARGIN_MS, SLOT_MS } from '../queue-options.ts';
import type { EndedRun } from '../history/past-run.ts';
import type {
  Finished,
  FinishRequest,
  LowRequest,
  Start,
  StartRequest,
  Starts,
  StartTimes,
} from '../records/records.ts';
import type { RedisRecords } from '../records/redis-records.ts';
import type { Finish, Process, Run } from '../run.ts';
import type { RunGate } from './run-gate.ts';
import { Slots } from './slots.ts';
import { type Waiting, WaitingKeys } from './waiting-keys.ts';

export interface QueueWorkerOptions {
  readonly queue: {
    readonly name: string;
    readonly timeoutMs: number;
    /** Runs at a time, over all gateways. */
    readonly concurrency: number;
    readonly maxBatch: number;
  };
  readonly records: RedisRecords;
  readonly process: Process;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly gate: RunGate;
  readonly barriers: BarrierChecks;
  readonly ownRuns: OwnRuns;
  readonly on: QueueWorkerEvents;
}

export interface QueueWorkerEvents {
  /** Work began that a stop waits for. Its failure is logged as a warning. */
  readonly work: (work: Promise<unknown>) => void;
  /** A timer was set: something is due then. */
  readonly due: (atMs: number) => void;
  /** Keys are ready to run, have no job, and do not start here. */
  readonly ready: (keys: readonly string[]) => void;
  /**
   * The queue has another owner, or none after a removal or a loss: it must be suspended until recovery has read it.
   */
  readonly foreign: () => void;
  /** A run begins. @param waitedMs the time since its key was added. */
  readonly started: (waitedMs: number) => void;
  readonly ended: (tookMs: number, hasFailed: boolean) => void;
  /** A finish has been answered. */
  readonly finished: (ended: EndedRun, finished: Finished) => void;
}

/** How soon starts that Redis refused are tried again. */
const START_AGAIN_MS = [20, 1000] as const;
const MOST_IN_CALL = 200;
/**
 * Keys that found every slot taken by other gateways ask again after this time. If the backlog has got no slot for this
 * time, one of its keys goes first.
 */
const FULL_AGAIN_MS = 20;
/** How many keys are remembered for `passOn`. A forgotten key starts here again. */
const MOST_PASSED_ON = 10_000;
/** How soon a key is started again after a frozen process has put it off. */
const BEGIN_AGAIN_MS = 1000;

const NO_FINISH: Promise<Finish> = Promise.resolve({ kind: 'unknown' });

/** Distinguishes the calls of a process. */
let calls = 0;

/**
 * Takes keys, runs them, and records the ends of their runs. Keys start first come, first served, while slots are
 * free, and keys of the backlog when slots are left. One call for starts is under way at a time: keys that come
 * during a call go with the next one. Many starts, and many finishes, share a round trip.
 *
 * A key leaves the line when Redis has decided about it, or when it finds every slot taken and has no job. It leaves
 * undecided when this gateway ends or has no room, or when the queue has another owner.
 */
export class QueueWorker {
  readonly #options: QueueWorkerOptions;
  readonly #controller: { readonly controller: string };
  /** Labels of the metrics: client-go names the queue, controller-runtime the controller. */
  readonly #labels: { readonly name: string; readonly controller: string };
  readonly #waiting = new WaitingKeys();
  readonly #backlog: BacklogTurn;
  readonly #slots: Slots;
  readonly #finishes: GroupCommit<FinishRequest, Finished>;
  /** Keys that other gateways should start first: their last trigger was not sent from here, or got no answer. */
  readonly #toPassOn = new NewestMap<string, true>(MOST_PASSED_ON);
  /** Lost runs that are being settled. The apiserver may answer after the poller has found them again. */
  readonly #settling = new Set<string>();
  readonly #id = randomUUID();
  /** The call for starts that is under way, and for how many keys it asks. */
  #call: { readonly keys: number } | undefined;
  /**
   * Whether the last call found every slot taken, or has used up the start rate or the runs in flight. Cleared when a
   * slot is free, or after `FULL_AGAIN_MS`.
   */
  #isFull = false;
  #retrying = false;
  /** Whether starts fail at present. The first failure and the recovery are logged. */
  #failing = false;

  constructor(options: QueueWorkerOptions) {
    const { queue, records, runtime, gate } = options;
    const { name } = queue;
    this.#options = options;
    this.#controller = { controller: name };
    this.#labels = { name, ...this.#controller };
    this.#backlog = new BacklogTurn({
      gateway: this.#id,
      newNonce: () => this.#newNonce(),
      patienceMs: FULL_AGAIN_MS,
    });
    this.#slots = new Slots(records, runtime.clock);
    this.#finishes = new GroupCommit((requests) => this.#finishAll(requests));
    gate.ending.addEventListener('abort', () => this.#waiting.leaveAll());
  }

  /** For how many keys there may be a slot now. */
  get room(): number {
    if (this.#waiting.size > 0 || this.#isFull || this.#options.gate.closed) return 0;
    const { gate } = this.#options;
    return Math.max(0, Math.min(this.#freeSlots(), Math.floor(gate.startRate.room())) - (this.#call?.keys ?? 0));
  }

  /**
   * Puts keys into the line.
   * @returns the keys that have left undecided: other gateways start them.
   * @param hasJob `false`: a key that finds every slot taken is given to `on.ready`. `true`: it waits here.
   */
  enter(keys: readonly string[], hasJob: boolean): Promise<readonly string[]> {
    const undecided = this.#waiting.enter(
      keys.map((key) => ({ key, nonce: this.#newNonce() })),
      hasJob,
    );
    this.#callNext();
    return undecided;
  }

  /** Must be called when the backlog may have keys: they start in free slots. */
  enterBacklog(): void {
    this.#backlog.mayHave();
    this.#callNext();
  }

  /** Checks again which keys may start. Must be called when a slot may be free or the gate has changed. */
  resume(): void {
    this.#isFull = false;
    this.#backlog.resume();
    this.#callNext();
  }

  /** Stops extending the slots of its runs. Redis would keep its last answer for as long as a run may last. */
  close(): void {
    this.#slots.close();
    this.#options.records.forgetTaken(this.#id).catch(() => {});
  }

  /**
   * Whether other gateways should start this key first, because its last trigger was not sent from here, or got no
   * answer. True once for each such run.
   */
  passOn(key: string): boolean {
    return this.#toPassOn.delete(key);
  }

  /**
   * Asks Redis about these keys without giving them slots, so that lost runs are settled while none may start here.
   * @returns the keys that may start now.
   * @throws when Redis refuses it.
   */
  async settleLost(keys: readonly string[]): Promise<readonly string[]> {
    const { records, on } = this.#options;
    const times = this.#times();
    const requests = keys.map((key) => ({ key, nonce: this.#newNonce() }));
    const { starts, isForeign = false } = await records.startAll(requests, { ...times, slots: 0 });
    if (isForeign) {
      on.foreign();
      return [];
    }
    const decided = requests.map((request, at) => ({ request, start: starts[at] ?? FULL }));
    this.#act(
      decided.filter(({ start }) => start.kind !== 'full'),
      times,
    );
    return decided.flatMap(({ request, start }) => (start.kind === 'full' ? [request.key] : []));
  }

  /**
   * @returns whether the run was the one in flight; if not, nothing was changed.
   * @throws Error when the key's record cannot be read, or Redis refuses to write.
   */
  async finish(request: FinishRequest): Promise<boolean> {
    const { runtime, on } = this.#options;
    const { metrics } = runtime;
    const { current, dead, timerMs, unreadable } = await this.#finishes.submit(request);
    if (unreadable !== undefined) throw new Error(unreadable);
    if (!current && request.ended) metrics.count('levelhook_stale_outcomes_total', this.#controller);
    if (dead) metrics.count('levelhook_dead_letters_total', this.#controller);
    if (timerMs !== undefined) on.due(timerMs);
    return current;
  }

  /**
   * The main loop: takes keys, asks Redis which of them may start, and runs these. After each call the worker makes the
   * next one, until no key can start.
   */
  #callNext(): void {
    const taken = this.#take();
    if (!taken) return;
    const asked = taken.keys.length + (taken.low?.count ?? 0);
    this.#call = { keys: asked };
    const { startRate } = this.#options.gate;
    startRate.begin(asked);
    const call = this.#start(taken).finally(() => {
      this.#call = undefined;
      startRate.end(asked);
      this.#callNext();
    });
    this.#options.on.work(call);
  }

  /** The keys that the next call is about; undefined: none can start now. */
  #take(): Taken | undefined {
    const { gate } = this.#options;
    // Before the check for a call under way: that call may have started the only run that the gate allows.
    if (gate.refuses || (!gate.closed && gate.room === 0)) this.#waiting.leaveAll();
    if (gate.closed) return undefined;
    if (this.#call || this.#isFull) return undefined;
    let room = Math.min(this.#freeSlots(), MOST_IN_CALL);
    if (room <= 0 || (this.#waiting.size === 0 && !this.#backlog.mayHaveKeys)) return undefined;
    if (gate.startRate.room() < room) {
      // This call takes these; the other keys wait.
      this.#pauseCalls();
      room = Math.floor(gate.startRate.room());
      if (room <= 0) return undefined;
    }
    const keys = this.#waiting.take(room);
    // If keys that were added use all runs that the gate allows, no key of the backlog goes before them.
    const low = keys.length < gate.room ? this.#backlog.request(room - keys.length, this.#now()) : undefined;
    return keys.length === 0 && !low ? undefined : { keys, low };
  }

  /**
   * How many runs may begin here: the slots that this gateway's own runs do not hold, and no more than the gate allows.
   * Redis knows the slots of other gateways.
   */
  #freeSlots(): number {
    const { queue, gate } = this.#options;
    return Math.min(queue.concurrency - this.#slots.held, gate.room);
  }

  /** Calls until Redis has decided, and follows its decisions. */
  async #start(taken: Taken): Promise<void> {
    const { queue, records, runtime, gate } = this.#options;
    const { name } = queue;
    const { clock, logger } = runtime;
    const requests = await this.#requests(taken.keys);
    for (let failures = 1; ; failures += 1) {
      const times = this.#times();
      let answer: Starts | undefined;
      try {
        answer = await records.startAll(requests, times, taken.low);
      } catch (error) {
        if (!this.#failing) {
          logger.warn({ controller: name, error: messageOf(error) }, 'runs could not be started, trying again');
          this.#failing = true;
        }
      }
      if (answer) {
        if (this.#failing) logger.info({ controller: name }, 'runs can be started again');
        this.#failing = false;
        return this.#apply(taken, answer, times);
      }
      await clock.sleep(backoffMs(START_AGAIN_MS, failures), gate.ending);
      if (!(await gate.opened())) return this.#waiting.putBack(taken.keys);
    }
  }

  /** Adds the barriers that this gateway knows to have passed, which saves their keys a second call. */
  async #requests(keys: readonly Waiting[]): Promise<readonly StartRequest[]> {
    const { barriers } = this.#options;
    return Promise.all(
      keys.map(async ({ request }) => {
        const passedBarrier = request.passedBarrier ?? (await barriers.passedOf(request.key));
        return passedBarrier === undefined ? request : { ...request, passedBarrier };
      }),
    );
  }

  /**
   * Applies the answer of Redis. A key with a decision leaves, and takes a slot if it starts. A key without a free slot
   * waits again if it has a job; otherwise `on.ready` gets it, which adds one.
   */
  #apply({ keys, low }: Taken, answer: Starts, times: StartTimes): void {
    const { on, gate } = this.#options;
    if (answer.isForeign) {
      this.#waiting.putBack(keys);
      return on.foreign();
    }
    if (low && this.#backlog.answered(answer.low.length, answer.lowLeft)) void this.#retry();
    const decided: Decided[] = [];
    const full: Waiting[] = [];
    keys.forEach((each, at) => {
      const start = answer.starts[at] ?? FULL;
      if (start.kind === 'full') return void full.push(each);
      decided.push({ request: each.request, start });
      this.#waiting.leave(each);
    });
    for (const { key, start } of answer.low) decided.push({ request: { key, nonce: low?.nonce ?? '' }, start });
    gate.startRate.take(decided.filter(({ start }) => start.kind === 'go').length);
    for (const { request, start } of decided) {
      if (start.kind !== 'go') continue;
      this.#slots.take(request.key, start.run, times.deadlineMs + RUN_MARGIN_MS);
      gate.began(request.key, start.run);
    }
    const jobless = full.filter(({ hasJob }) => !hasJob);
    for (const each of jobless) this.#waiting.leave(each);
    this.#waiting.putBack(full.filter(({ hasJob }) => hasJob));
    if (full.length > 0) this.#pauseCalls();
    this.#act(decided, times);
    if (jobless.length > 0) on.ready(jobless.map(({ request }) => request.key));
  }

  #act(decided: readonly Decided[], times: StartTimes): void {
    const { queue, barriers, ownRuns, on } = this.#options;
    const together: Started[] = [];
    for (const { request, start } of decided) {
      const { key } = request;
      switch (start.kind) {
        case 'barrier':
          // If the key does not start now, its timer brings it back.
          on.due(times.nowMs + BARRIER_AGAIN_MS.first);
          on.work(this.#startOncePassed(request, start.barrier));
          break;
        case 'limited':
          on.due(start.untilMs);
          break;
        case 'refused':
          this.#reportRefused(key, start.error);
          break;
        case 'lost':
          this.#settle(key, start);
          break;
        case 'go': {
          barriers.forget(key);
          this.#toPassOn.delete(key);
          const heldMs = ownRuns.heldUntil({ key, run: start.run }, times.nowMs);
          if (heldMs !== undefined) {
            // Redis has lost the record of a run in flight, and recovery has not noticed yet.
            const { run, reasons } = start;
            this.#putOff({ key, run, nonce: request.nonce, reasons }, heldMs - times.nowMs);
            break;
          }
          const { run, incarnation, failures, reasons, queuedAtMs, heldAtMs, recorded, hasFailed } = start;
          const waitedMs = queuedAtMs === undefined ? undefined : Math.max(0, times.nowMs - queuedAtMs);
          const begun = { key, run, incarnation, failures, reasons, waitedMs, deadlineMs: times.deadlineMs };
          const started = { run: begun, nonce: request.nonce, queuedAtMs, heldAtMs, recorded, hasFailed };
          // A key that has failed runs alone: if it crashes its function, no other key of a batch fails with it.
          if (failures === 0) together.push(started);
          else this.#run([started], times);
          break;
        }
        default:
      }
    }
    for (const batch of batchesOf(together, queue.maxBatch)) this.#run(batch, times);
  }

  #reportRefused(key: string, error: string): void {
    const { queue, runtime } = this.#options;
    const fields = { controller: queue.name, key, error };
    runtime.logger.error(fields, 'Redis refuses to start a key because of its record');
    runtime.metrics.count('levelhook_refused_starts_total', this.#controller);
  }

  /** If the barrier has not passed, the timer of the key brings it back. */
  async #startOncePassed(request: StartRequest, barrier: string): Promise<void> {
    if (!(await this.#options.barriers.passed(barrier))) return;
    this.#waiting.enterFirst({ ...request, passedBarrier: barrier });
    this.#callNext();
  }

  #settle(key: string, start: Start & { kind: 'lost' }): void {
    const id = `${start.run} ${key}`;
    if (this.#settling.has(id)) return;
    this.#settling.add(id);
    this.#options.on.work(this.#endLost(key, start).finally(() => this.#settling.delete(id)));
  }

  async #endLost(key: string, { run, failures, error }: Start & { kind: 'lost' }): Promise<void> {
    const { process, runtime } = this.#options;
    runtime.metrics.count('levelhook_lost_outcomes_total', this.#controller);
    const finish = {
      error: error ?? 'no outcome before the deadline',
      ...(await process.lost({ key, run, failures })),
    };
    const ended = { key, run, finish, atMs: this.#now(), lost: true, attempt: failures + 1 } as const;
    await this.finish({ key, run, finish, ended });
  }

  #run(started: readonly Started[], { nowMs, deadlineMs }: StartTimes): void {
    const { process, gate, ownRuns, on } = this.#options;
    // The gate is closed if the connection broke during the script: the script was then sent again, to a Redis that
    // recovery has not checked yet. The start is late if this process was frozen or Redis did not answer: other
    // gateways may count this gateway as ended, and its runs as lost, until it announces itself again
    // (`GatewayRuns.beginUntil`).
    const isLate = !ownRuns.mayBegin(this.#now()) || this.#now() >= deadlineMs;
    if (gate.closed || isLate) {
      const againAfterMs = gate.closed ? 0 : BEGIN_AGAIN_MS;
      for (const { run: begun, nonce } of started) {
        const { key, run, reasons } = begun;
        this.#putOff({ key, run, nonce, reasons }, againAfterMs);
      }
      return;
    }
    for (const each of started) this.#measureWait(each, nowMs);
    const runs = started.map(({ run }) => run);
    for (const run of runs) ownRuns.begin(run, nowMs);
    gate.startRate.begin(runs.length);
    const finishes = process.run(runs);
    started.forEach((each, at) => on.work(this.#end(each, finishes[at] ?? NO_FINISH, nowMs)));
  }

  #measureWait({ run, heldAtMs, recorded }: Started, nowMs: number): void {
    const { on, runtime } = this.#options;
    const { metrics } = runtime;
    if (heldAtMs !== undefined) {
      metrics.observe('levelhook_barrier_wait_seconds', this.#controller, Math.max(0, nowMs - heldAtMs) / 1000);
    }
    const { waitedMs } = run;
    if (waitedMs === undefined) return;
    metrics.observe('workqueue_queue_duration_seconds', this.#labels, waitedMs / 1000);
    // The oldest reason comes first, and the wait counts from it.
    if (recorded !== '' && isEvent(run.reasons[0])) {
      metrics.observe('levelhook_event_to_reconcile_seconds', this.#controller, waitedMs / 1000);
    }
    on.started(waitedMs);
  }

  /**
   * Takes back a start that is on record, so that its run does not begin. The nonce protects a later start of the key.
   */
  #putOff(start: Pick<FinishRequest, 'key' | 'run' | 'nonce' | 'reasons'>, againAfterMs: number): void {
    this.#options.on.work(this.finish({ ...start, finish: { kind: 'ended', failures: 'keep', againAfterMs } }));
  }

  async #end(started: Started, finishing: Promise<Finish>, startedMs: number): Promise<void> {
    const { on, runtime, gate } = this.#options;
    const { run, recorded, hasFailed } = started;
    const finish = await finishing.catch((error: unknown) => ({ kind: 'unknown' as const, error: messageOf(error) }));
    gate.startRate.end(1);
    const nowMs = this.#now();
    const tookMs = nowMs - startedMs;
    runtime.metrics.observe('workqueue_work_duration_seconds', this.#labels, tookMs / 1000);
    on.ended(tookMs, isFailure(finish));
    // Unknown: the run stays on record, and the poller finds it after its deadline.
    if (finish.kind === 'unknown') on.due(run.deadlineMs + RUN_MARGIN_MS);
    if (finish.kind === 'accepted') on.due(finish.untilMs + RUN_MARGIN_MS);
    if (finish.kind === 'ended' && finish.againAfterMs !== undefined) {
      runtime.metrics.count('workqueue_retries_total', this.#labels);
    }
    // If this finish fails, the run is settled at its deadline.
    const ended = {
      key: run.key,
      run: run.run,
      finish,
      atMs: nowMs,
      attempt: run.failures + 1,
      hasFailed,
      tookMs,
      waitedMs: run.waitedMs,
      heldMs: heldMsOf(started, startedMs),
      recorded,
      reasons: run.reasons,
    };
    const isUnsent = finish.kind === 'ended' && finish.sent === false && finish.againAfterMs !== undefined;
    await this.finish({ key: run.key, run: run.run, finish, ended, ...(isUnsent ? { reasons: run.reasons } : {}) });
  }

  async #finishAll(requests: readonly FinishRequest[]): Promise<Finished[]> {
    const { records, barriers, ownRuns, on } = this.#options;
    // A start that is taken back has no `ended` and ends no own run: a run whose record Redis has lost may have the
    // same number, and goes on.
    for (const request of requests) if (request.ended) ownRuns.finish(request);
    const answer = records.finishAll(requests, this.#now(), ownRuns);
    for (const { key, run, finish } of requests) {
      if (finish.kind === 'ended' && finish.barrier !== undefined) barriers.remember(key, finish.barrier);
      if (finish.kind === 'unknown' || (finish.kind === 'ended' && finish.elsewhere)) this.#toPassOn.set(key, true);
      // The slot is free at once, because a later start is sent on the same connection, after this finish.
      this.#release(key, run);
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

  /** Frees the slot of this run, and its place in the gate: its finish has been sent, or it does not begin here. */
  #release(key: string, run: number): void {
    this.#options.gate.over(key, run);
    if (this.#slots.release(key, run)) this.resume();
  }

  /** The worker makes no further call until a slot is free here or `FULL_AGAIN_MS` have passed. */
  #pauseCalls(): void {
    this.#isFull = true;
    void this.#retry();
  }

  /** Asks again after a time, because other gateways do not announce the slots that they free. */
  async #retry(): Promise<void> {
    if (this.#retrying) return;
    this.#retrying = true;
    const { gate, runtime } = this.#options;
    await runtime.clock.sleep(FULL_AGAIN_MS, gate.ending);
    this.#retrying = false;
    this.resume();
  }

  #times(): StartTimes {
    const { timeoutMs } = this.#options.queue;
    const nowMs = this.#now();
    const slotMs = nowMs + Math.min(SLOT_MS, timeoutMs + RUN_MARGIN_MS);
    return { nowMs, deadlineMs: nowMs + timeoutMs, slotMs };
  }

  #now(): number {
    return this.#options.runtime.clock.now();
  }

  #newNonce(): string {
    return `${this.#id}/${(calls += 1)}`;
  }
}

/** The keys of one call. */
interface Taken {
  readonly keys: readonly Waiting[];
  /** Keys of the backlog. */
  readonly low: LowRequest | undefined;
}

/** The decision about a key. */
interface Decided {
  readonly request: StartRequest;
  readonly start: Start;
}

const FULL: Start = { kind: 'full' };

interface Started {
  readonly run: Run;
  /** The nonce of its start. */
  readonly nonce: string;
  readonly queuedAtMs: number | undefined;
  readonly heldAtMs: number | undefined;
  readonly recorded: string;
  /** See `Start`. */
  readonly hasFailed: boolean;
}

/** See `PastRun.heldMs`. */
function heldMsOf({ heldAtMs, queuedAtMs }: Started, startedMs: number): number | undefined {
  if (heldAtMs === undefined || queuedAtMs === undefined) return undefined;
  return Math.max(0, startedMs - Math.max(heldAtMs, queuedAtMs));
}

function isFailure(finish: Finish): boolean {
  if (finish.kind !== 'ended') return finish.kind === 'unknown';
  return finish.failures === 'count' || finish.dead === true;
}

/** Whether a key runs because of a watched event, rather than a request, a requeue or a resync. */
function isEvent(reason: Reason | undefined): boolean {
  return reason !== undefined && ['added', 'updated', 'deleted'].includes(reason.type);
}
