import { type AdmittedLine, LimitedLines, messageOf, type Runtime } from '../../../core/index.ts';
import type { Redis } from '../../../ground/redis/redis.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';
import { BarrierChecks } from './worker/barrier-checks.ts';
import { BullMqJobs } from './worker/bullmq-jobs.ts';
import { GroupCommit } from './worker/group-commit.ts';
import { IdlePace, type PaceShare } from './worker/idle-pace.ts';
import { OwnRuns, type Unfinished } from './records/own-runs.ts';
import type { EndedRun } from './history/past-run.ts';
import { IDLE_POLL_INTERVAL_MS, Poller } from './worker/poller.ts';
import { queueKeys, type QueueKeys } from './queue-keys.ts';
import { HISTORY_RUNS, type QueueOptions } from './queue-options.ts';
import type { Finished } from './records/records.ts';
import { RedisHistory } from './history/redis-history.ts';
import { RedisInspector } from './records/redis-inspector.ts';
import { QueueRecord } from './records/queue-record.ts';
import { RedisRecords } from './records/redis-records.ts';
import { RunRecorder } from './history/run-recorder.ts';
import { RunGate } from './worker/run-gate.ts';
import { RelatedRules } from './records/related-rules.ts';
import { RedisSamples, Sampler } from './history/samples.ts';
import { Stall } from './worker/stall.ts';
import { ANY_RATE, type StartRate } from './worker/start-rates.ts';
import { Upkeep } from './worker/upkeep.ts';
import { QueueWorker } from './worker/queue-worker.ts';
import {
  type Finish,
  type PauseScope,
  type LowReason,
  type PausedState,
  type Process,
  type QueuedKey,
  type QueueHistory,
  type WorkQueue,
} from './work-queue.ts';

export interface WorkQueueOptions {
  /** The controller's name. */
  readonly name: string;
  readonly behaviour: QueueOptions;
  /**
   * The place of the queue, and the connection for commands. BullMQ's worker opens a second connection for its blocking
   * read. `owner` distinguishes successive owners of the name: a gateway that still runs the queue of a removed
   * owner starts no key of the next one. Default: the name alone identifies the queue.
   */
  readonly location: Pick<RedisLocation, 'redis' | 'keyPrefix' | 'clusterId'> & { readonly owner?: string | undefined };
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  /** Called when a pause of all keys was set or ended through this gateway. Default: nothing happens. */
  readonly onPauseChanged?: () => void;
  /**
   * The runs of this queue that this gateway has started. They outlive a queue that is closed and opened again.
   * Default: none.
   */
  readonly ownRuns?: OwnRuns;
  readonly bounds?: QueueBounds;
  /** How many runs of all keys the history holds; 0: only the own histories of failing keys. Default 10,000. */
  readonly historyRuns?: number | undefined;
}

/** Limits for a queue that shares resources with others. Default: no limits. */
export interface QueueBounds {
  /** How often the queues of this gateway ask Redis while nothing is due. Default: as a single queue does. */
  readonly idlePace?: IdlePace;
  /** How many runs of the controller's tenant may begin. Default: any number. */
  readonly starts?: StartRate | undefined;
  /** Returns why Redis has no memory for more of its keys; undefined: it has. Default: it always has. */
  readonly leftOut?: () => string | undefined;
  /** Whether a failure of a part of the queue may be logged. Default: three at once, and then one in ten seconds. */
  readonly admitLine?: (part: string) => AdmittedLine | undefined;
}

/**
 * Log lines about failures of each part of a queue: an outage fails each of its runs, and BullMQ repeats its errors at
 * once.
 */
export const QUEUE_LINES = { perSecond: 0.1, burst: 3 };

/** How long `stop` waits for active jobs before it closes BullMQ's worker by force. */
const CLOSE_TIMEOUT_MS = 1000;

/**
 * The work queue in Redis, made of two halves. Our scripts keep the records: the state of each key (one run at a time,
 * failures, barrier, pauses, slots) and its times (requeue, backoff, deadline). This gateway starts a key that becomes
 * ready if there is a slot. Otherwise the key waits in a job of BullMQ, which gives the job to one of the gateways.
 */
export class BullMqWorkQueue implements WorkQueue {
  readonly name: string;
  readonly inspector: RedisInspector;
  readonly history: QueueHistory;
  readonly record: QueueRecord;
  /** The related objects of its keys. */
  readonly relatedRules: RelatedRules;
  readonly keys: QueueKeys;
  readonly jobs: BullMqJobs;
  /** The runs that this gateway has started. */
  readonly ownRuns: OwnRuns;
  readonly stall: Stall;
  /** See `QueueBounds.leftOut`. */
  readonly leftOut: () => string | undefined;
  /** The labels of its metrics. As in controller-runtime, a queue has the name of its controller. */
  readonly #labels: { readonly name: string; readonly controller: string };
  readonly #behaviour: QueueOptions;
  readonly #runtime: WorkQueueOptions['runtime'];
  readonly #onPauseChanged: () => void;
  readonly #redis: Redis;
  readonly #admitLine: NonNullable<QueueBounds['admitLine']>;
  readonly #records: RedisRecords;
  /** Undefined while the history is off. */
  readonly #sampler: Sampler | undefined;
  readonly #recorder: RunRecorder | undefined;
  readonly #idlePace: IdlePace;
  readonly #gate: RunGate;
  #paceShare: PaceShare | undefined;
  /** Set by `start`, as the other parts that run keys. */
  #barriers: BarrierChecks | undefined;
  #poller: Poller | undefined;
  #worker: QueueWorker | undefined;
  /** Ready keys whose jobs could not be added: the poller tries again. */
  readonly #keysToRetry = new Set<string>();
  readonly #adds: GroupCommit<readonly QueuedKey[], Promise<readonly string[]>>;
  #upkeep: Upkeep | undefined;
  readonly #inFlight = new Set<Promise<void>>();
  /** Jobs that BullMQ has given to this gateway and whose keys have not all started. */
  readonly #activeJobs = new Set<Promise<void>>();
  /** Whether the last ready keys include a key that other gateways should start first (`QueueWorker.passOn`). */
  #passesOn = false;

  constructor(options: WorkQueueOptions) {
    const { name, behaviour, location, runtime, onPauseChanged = () => {}, ownRuns = new OwnRuns() } = options;
    const { historyRuns = HISTORY_RUNS, bounds = {} } = options;
    const { idlePace = new IdlePace(), starts = ANY_RATE, leftOut = () => undefined } = bounds;
    const lines = new LimitedLines(runtime.clock, QUEUE_LINES);
    this.#admitLine = bounds.admitLine ?? ((part) => lines.admit(part));
    const { redis } = location;
    const { clock, logger } = runtime;
    const { concurrency } = behaviour;
    const keys = queueKeys(location, name);
    const isLeftOut = (): boolean => leftOut() !== undefined;
    const records = new RedisRecords(redis, keys, behaviour, location.owner, isLeftOut);
    const jobs = new BullMqJobs({ redis, keys, name, concurrency, onError: (error, part) => this.#warn(error, part) });
    this.#redis = redis;
    this.keys = keys;
    this.leftOut = leftOut;
    this.name = name;
    this.#labels = { name, controller: name };
    this.#behaviour = behaviour;
    this.#runtime = runtime;
    this.#onPauseChanged = onPauseChanged;
    this.ownRuns = ownRuns;
    this.#records = records;
    this.relatedRules = new RelatedRules(redis, keys);
    this.inspector = new RedisInspector(redis, keys, {
      clock,
      passed: async (barrier) => (await this.#barriers?.passed(barrier)) ?? false,
    });
    const samples = new RedisSamples(redis, keys);
    this.history = new RedisHistory({
      redis,
      keys,
      flush: () => this.#recorder?.write(),
      samples: () => samples.read(clock.now()),
    });
    const history = { name, redis, keys, historyRuns, isLeftOut, clock, logger };
    this.#recorder = historyRuns > 0 ? new RunRecorder(history) : undefined;
    this.#sampler = historyRuns > 0 ? new Sampler({ name, samples, clock, logger }) : undefined;
    this.jobs = jobs;
    this.#idlePace = idlePace;
    this.#gate = new RunGate({ startRate: starts, onRoom: () => this.#roomChanged() });
    const isOpen = (): boolean => this.#gate.room === 0;
    this.stall = new Stall({ concurrency, clock, read: () => this.inspector.levels(), isOpen });
    this.record = new QueueRecord({
      redis,
      key: keys.queue,
      owner: location.owner,
      recordSettings: () => jobs.recordSettings(),
      written: (write) => this.stall.mayMakeDue(write),
      hasEnded: () => this.#gate.ended,
    });
    this.#adds = new GroupCommit(async (adds) => {
      const { ready, dueMs, changed } = await records.recordAdds(adds.flat(), clock.now());
      if (dueMs !== undefined) this.#poller?.wake(dueMs);
      // Not awaited, so that the next adds are recorded at the same time.
      const enqueued = this.#startOrEnqueue(ready);
      const repaused = new Set(changed);
      return adds.map(async (keys): Promise<readonly string[]> => {
        await enqueued;
        return keys.flatMap(({ key }) => (repaused.has(key) ? [key] : []));
      });
    });
  }

  async add(keys: readonly QueuedKey[]): Promise<readonly string[]> {
    if (keys.length === 0) return [];
    const { metrics } = this.#runtime;
    const changed = await this.stall.mayMakeDue(this.#adds.submit(keys));
    this.#sampler?.touch();
    metrics.count('workqueue_adds_total', this.#labels, keys.length);
    return changed;
  }

  async addLow(keys: readonly string[], reason: LowReason): Promise<void> {
    await this.stall.mayMakeDue(this.#records.addToBacklog(keys, this.#runtime.clock.now(), reason));
    this.#worker?.enterBacklog();
    this.#sampler?.touch();
    this.#runtime.metrics.count('workqueue_adds_total', this.#labels, keys.length);
  }

  async addAfter(key: string, ms: number): Promise<void> {
    const atMs = this.#runtime.clock.now() + Math.max(0, ms);
    await this.stall.mayMakeDue(this.#records.addTimer(key, atMs));
    this.#poller?.wake(atMs);
  }

  async settle(key: string, run: number, finish: Exclude<Finish, { kind: 'unknown' }>): Promise<boolean> {
    const nowMs = this.#runtime.clock.now();
    const request = { key, run, finish, ended: { key, run, finish, atMs: nowMs } };
    if (this.#worker) return this.stall.mayMakeDue(this.#worker.finish(request));
    this.ownRuns.finish(request);
    const [finished] = await this.stall.mayMakeDue(this.#records.finishAll([request], nowMs, this.ownRuns));
    if (finished) this.#recorder?.record(request.ended, finished);
    if (finished?.unreadable !== undefined) throw new Error(finished.unreadable);
    return finished?.current ?? false;
  }

  async pause(scope: PauseScope, untilMs?: number): Promise<boolean> {
    const isNew = await this.stall.mayMakeDue(this.#records.pause(scope, this.#runtime.clock.now(), untilMs));
    if (untilMs !== undefined) this.#poller?.wake(untilMs);
    if (scope === 'controller') this.#onPauseChanged();
    return isNew;
  }

  async resume(scope: PauseScope): Promise<boolean> {
    const wasPaused = await this.stall.mayMakeDue(this.#records.resume(scope));
    this.#worker?.enterBacklog();
    if (scope === 'controller') this.#onPauseChanged();
    return wasPaused;
  }

  async pauseObjects(states: readonly PausedState[]): Promise<readonly string[]> {
    const changed = await this.stall.mayMakeDue(this.#records.pauseObjects(states, this.#runtime.clock.now()));
    if (changed.length > 0) this.#worker?.enterBacklog();
    return changed;
  }

  drop(keys: readonly string[]): Promise<number> {
    return this.#records.drop(keys, this.#runtime.clock.now());
  }

  /** How long the unanswered runs of this gateway have taken so far. */
  unfinished(): Unfinished {
    return this.ownRuns.unfinished(this.#runtime.clock.now());
  }

  stalledMs(): Promise<number> {
    return this.stall.ms();
  }

  async start(process: Process): Promise<void> {
    if (this.#worker || this.#gate.ended) return;
    const { name } = this;
    const { concurrency, timeoutMs, maxBatch = 1 } = this.#behaviour;
    const runtime = this.#runtime;
    const { clock } = runtime;
    const records = this.#records;
    const onReady = (keys: readonly string[]): Promise<void> => this.#startOrEnqueue([...this.#keysToRetry, ...keys]);
    const keysOfJobs = (): ReturnType<BullMqJobs['keysOfJobs']> => this.jobs.keysOfJobs();
    const pace = this.#idlePace.join((factor) => this.jobs.pace(factor));
    this.#paceShare = pace;
    this.jobs.pace(pace.factor);
    const onError = (error: unknown): void => this.#warn(error, 'barrier');
    const barriers = new BarrierChecks({ process, clock, onError });
    this.#barriers = barriers;
    const [gate, ownRuns] = [this.#gate, this.ownRuns];
    const upkeep = new Upkeep({ name, records, barriers, ownRuns, gate, onReady, keysOfJobs, runtime });
    const poller = new Poller({
      records,
      barriers,
      onReady,
      onOverdue: (keys) => this.#settleOrStart(keys),
      onDue: (due) => {
        this.stall.compare(due);
        if (due.backlog > 0) this.#worker?.enterBacklog();
      },
      upkeep,
      pace,
      runtime,
    });
    const on = {
      work: (work: Promise<unknown>): void => void this.#track(work),
      due: (atMs: number): void => poller.wake(atMs),
      foreign: (): void => this.suspend(true),
      ready: (keys: readonly string[]): void => void this.#track(this.#startOrEnqueue(keys)),
      finished: (run: EndedRun, finished: Finished): void => this.#recorder?.record(run, finished),
      started: (waitedMs: number): void => this.#sampler?.started(waitedMs),
      ended: (tookMs: number, hasFailed: boolean): void => this.#sampler?.ended(tookMs, hasFailed),
    };
    const queue = { name, timeoutMs, concurrency, maxBatch };
    this.#worker = new QueueWorker({ queue, records, process, runtime, gate, barriers, ownRuns, on });
    // A gateway before this one may have left keys that wait.
    this.#sampler?.touch();
    this.#poller = poller;
    this.#upkeep = upkeep;
    this.#takeJobs();
    await this.jobs.start((keys) => this.#processJob(keys));
    if (!this.#gate.closed) this.#poller.start();
  }

  suspend(isForeign = false): void {
    const isFirst = this.#gate.close(isForeign);
    if (isForeign) this.#worker?.resume();
    if (!isFirst) return;
    // Nothing here waits for Redis, which may be away. The gate holds keys of jobs that BullMQ still gives out.
    this.#poller?.stop().catch((error: unknown) => this.#warn(error, 'poller'));
    this.#takeJobs();
  }

  /** Whether runs may begin here. */
  get gate(): Pick<RunGate, 'closed' | 'ended' | 'room'> {
    return this.#gate;
  }

  unsuspend(): void {
    // A stopped queue stays stopped: another object may use the queue under its name by now.
    if (!this.#gate.open()) return;
    this.#takeJobs();
    // Looks soon for ready keys without a job: the answer that named them may have been lost with the connection.
    this.#upkeep?.checkSoon(this.#runtime.clock.now());
    this.#worker?.resume();
    this.#poller?.start();
  }

  allow(most: number): void {
    if (!this.#gate.ended) this.#gate.allow(most);
  }

  /** Why no run of the controller's tenant may begin here until one has ended; undefined: one may. */
  get fullReason(): string | undefined {
    return this.#gate.startRate.fullReason();
  }

  async stop(drainMs: number): Promise<void> {
    const { clock } = this.#runtime;
    const wasSuspended = this.#gate.closed;
    // From here on no run starts, even if BullMQ still gives out jobs.
    this.suspend();
    this.#gate.end();
    const limit = new AbortController();
    const end = clock.sleep(drainMs, limit.signal);
    await Promise.race([this.#drained(), end]);
    // A run that is still in flight stays on record, and another gateway settles it. The jobs end once their keys are
    // in new jobs.
    const ended = Promise.all(this.#activeJobs).then(() => true);
    const haveEnded = await Promise.race([ended, clock.sleep(CLOSE_TIMEOUT_MS, limit.signal).then(() => false)]);
    // The wait for the recorder is bounded, because Redis may be away.
    await Promise.race([this.#recorder?.stop(), clock.sleep(CLOSE_TIMEOUT_MS, limit.signal)]);
    limit.abort();
    this.#sampler?.stop();
    this.#worker?.close();
    this.#paceShare?.leave();
    await this.jobs.close(wasSuspended || !haveEnded);
  }

  /**
   * Puts the runs of this gateway that may be in flight back on record, where Redis process `runId` may have lost them.
   * Call it while this queue is suspended, and before any gateway calls `record.renew(runId)`: it does nothing after
   * that, since keys may have started.
   */
  async putBackRuns(runId: string): Promise<void> {
    if (this.ownRuns.highest === 0) return;
    const nowMs = this.#runtime.clock.now();
    await this.stall.mayMakeDue(this.#records.putBack(this.ownRuns, { runId, nowMs }));
  }

  #roomChanged(): void {
    this.#takeJobs();
    this.#worker?.resume();
  }

  /**
   * A gateway that may not start keys leaves the jobs to others. A gateway that takes one job at a time queues behind
   * the others for the next one.
   */
  #takeJobs(): void {
    const { room } = this.#gate;
    if (this.#gate.closed || room === 0) this.jobs.take('none');
    else this.jobs.take(room < Infinity || this.#passesOn ? 'one' : 'all');
  }

  /** Starts ready keys here while slots may be free, and adds jobs for the others. */
  async #startOrEnqueue(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    const worker = this.#worker;
    const room = worker?.room ?? 0;
    const here: string[] = [];
    const others: string[] = [];
    this.#passesOn = false;
    for (const key of keys) {
      const isForOthers = worker?.passOn(key) ?? false;
      if (isForOthers) this.#passesOn = true;
      (here.length < room && !isForOthers ? here : others).push(key);
    }
    if (here.length > 0) void this.#track(this.#startHere(here));
    for (const key of here) this.#keysToRetry.delete(key);
    this.#takeJobs();
    await this.stall.mayMakeDue(this.#enqueue(others));
  }

  /** Adds jobs for ready keys. If Redis refuses them, the poller tries the keys again, or `Upkeep` finds them. */
  async #enqueue(keys: readonly string[]): Promise<void> {
    try {
      // A removed queue gets no jobs, which no gateway would take.
      if (this.#gate.isForeign && (await this.#redis.exists(this.keys.queue)) === 0) return;
      await this.jobs.add(keys);
      for (const key of keys) this.#keysToRetry.delete(key);
    } catch (error) {
      for (const key of keys) this.#keysToRetry.add(key);
      this.#poller?.wake(this.#runtime.clock.now() + IDLE_POLL_INTERVAL_MS);
      throw error;
    }
  }

  /**
   * Handles keys whose run has passed its deadline. The start of a key settles its run. While `allow` limits
   * the starts, these runs are settled alone.
   */
  async #settleOrStart(keys: readonly string[]): Promise<void> {
    const worker = this.#worker;
    if (!worker || this.#gate.room === Infinity || keys.length === 0) return this.#startOrEnqueue(keys);
    await this.#startOrEnqueue(await worker.settleLost(keys));
  }

  /** Keys that have not started when this gateway ends go into jobs again, and other gateways start them. */
  async #startHere(keys: readonly string[]): Promise<void> {
    await this.#enqueue((await this.#worker?.enter(keys, false)) ?? []);
  }

  /**
   * Starts the keys of a job, as `#startHere`. The job must end in any case: while it is active, BullMQ renews its
   * lock, and `Upkeep` counts its keys as keys with a job.
   */
  async #processJob(keys: readonly string[]): Promise<void> {
    const startKeys = async (): Promise<void> => this.#enqueue((await this.#worker?.enter(keys, true)) ?? keys);
    const job = this.stall.mayMakeDue(startKeys()).catch((error: unknown) => this.#warn(error, 'job'));
    this.#activeJobs.add(job);
    await job;
    this.#activeJobs.delete(job);
  }

  /**
   * Logs a failure of the work, and keeps the work until it ends, because `stop` waits for it. Redis or the apiserver
   * may fail during a run: the run is on record and is settled at its deadline.
   */
  async #track(work: Promise<unknown>): Promise<void> {
    const run = this.stall.mayMakeDue(work).then(
      () => undefined,
      (error: unknown) => this.#warn(error, 'run'),
    );
    this.#inFlight.add(run);
    await run;
    this.#inFlight.delete(run);
  }

  /** Resolves when no work is in flight. The end of a run adds its finish. */
  async #drained(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight);
  }

  #warn(error: unknown, part: string): void {
    const admitted = this.#admitLine(part);
    if (!admitted) return;
    this.#runtime.logger.warn(
      { controller: this.name, part, error: messageOf(error), ...admitted },
      'a part of the work queue failed',
    );
  }
}
