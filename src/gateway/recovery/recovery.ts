import { messageOf, type Runtime } from '../../core/index.ts';
import { redisRunId } from '../informer/cache/incarnation.ts';
import type { Informer } from '../informer/cache/informer.ts';
import type { Informers } from '../informer/cache/informers.ts';
import { onConnection } from '../../ground/redis/cluster.ts';
import { redisNotReady } from '../../ground/redis/redis-memory.ts';
import type { View } from '../informer/cache/view.ts';
import type { GatewayWriter, Term } from '../informer/cache/gateway-writer.ts';
import type { RunningController } from '../controller/running/controller.ts';
import { raiseDataVersion } from '../election/data-version.ts';
import { type Part, Parts } from './parts.ts';
import { Repairs, type RepairsOptions } from './repairs.ts';
import { UnrecordedRuns, type UnrecordedRunsOptions } from './unrecorded-runs.ts';

export interface RecoveryOptions extends UnrecordedRunsOptions {
  readonly runtime: Runtime;
  /** The views and queues that recovery repairs. */
  readonly parts: RepairsOptions['parts'] & { readonly informers: Pick<Informers, 'record'> };
  readonly garbage: RepairsOptions['garbage'];
  /** `waitsFor` may have changed. */
  readonly onWaitChanged: RepairsOptions['onWaitChanged'];
  /** Says whether this gateway leads. Asked when a view carries another gateway's ID. */
  readonly writer: Pick<GatewayWriter, 'term' | 'check'>;
}

/** The result of a check. */
interface Found {
  readonly informers: readonly Informer[];
  /** All controllers of this gateway. */
  readonly controllers: readonly RunningController[];
  /** The controllers whose queues were read. */
  readonly read: readonly RunningController[];
  readonly lost: readonly Part[];
  readonly runId: string;
  /** Whether the connection has stayed since the check began. */
  readonly isConnected: () => boolean;
}

/** The state of Redis as a whole: see `Recovery`. */
type State =
  | { readonly kind: 'unchecked' }
  | { readonly kind: 'checked' }
  | { readonly kind: 'unusable'; readonly reason: string }
  | { readonly kind: 'away' };

/** How long one check waits for its repairs and for queueing keys. Slower work continues during the next checks. */
const PATIENCE_MS = 1000;

/** How many queues in order a check reads, in rotation. A check reads every queue once any part has turned out lost. */
const IN_TURN = 25;

/**
 * Repairs views and queues after Redis has lost data. Each view and each queue has an incarnation and the run_id of the
 * Redis process on which it was written. If one of them is missing or names another process, data may be lost: records
 * of runs in flight, or applied changes. Then recovery waits until every unrecorded run must be over, lists the views
 * again as a diff, and writes new incarnations. A controller whose incarnations have changed gets all its keys.
 *
 * The gateway sends no trigger before a controller's first check, nor between the loss of the connection and the next
 * check. Each view and queue is repaired separately: a controller runs as soon as its own queue and views are repaired.
 * So a list that never ends, or runs that may take long, delay only the controllers that depend on them.
 *
 * A check reads the identity of the Redis process, each view, the queues that are not known to be in order, and a few
 * of the other queues in rotation. So a check costs no more with a thousand idle controllers than with twenty-five. A
 * new process, a new connection, a lost view or a lost queue makes the same check read every queue. If one queue alone
 * is lost, while its process and all views stay, recovery finds the loss when the rotation reaches that queue.
 *
 * The gateway that leads repairs. A follower runs the controllers whose queue and views are in order, and suspends the
 * others.
 *
 * States of the whole:
 *
 * - `unchecked`, from the start and from each new connection until a check has read everything in Redis; then
 *   `checked`. A failed check changes it back. Repairs of parts may go on in either state.
 * - `unusable`, when a check finds that Redis evicts keys or is full: the gateway dispatches nothing until a check
 *   finds Redis usable.
 * - `away`, from a lost connection to the next one: the gateway dispatches nothing. The check after the new connection
 *   decides.
 */
export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #runtime: Runtime;
  readonly #location: RecoveryOptions['location'];
  readonly #unrecorded: UnrecordedRuns;
  readonly #parts = new Parts();
  readonly #repairs: Repairs;
  /** Process and term of the last check that has read everything; undefined: the next check reads everything. */
  #whole: { readonly runId: string; readonly term: Term | undefined } | undefined;
  #nextTurn = 0;
  #checking: Promise<void> = Promise.resolve();
  /** The last requested check, until it begins. */
  #next: { readonly signal: AbortSignal; readonly check: Promise<void> } | undefined;
  #state: State = { kind: 'unchecked' };
  /** The number of lost connections. */
  #losses = 0;

  constructor(options: RecoveryOptions) {
    this.#options = options;
    this.#runtime = options.runtime;
    this.#location = options.location;
    this.#unrecorded = new UnrecordedRuns(options);
    const hasLostConnection = (): boolean => this.#losses > 0;
    this.#repairs = new Repairs({ ...options, states: this.#parts, unrecorded: this.#unrecorded, hasLostConnection });
  }

  /** Whether the last check has read Redis as a whole. Parts may still be under repair: see `isRepairing`. */
  get healthy(): boolean {
    return this.#state.kind === 'checked';
  }

  /** The reason, for people, while it is not healthy; otherwise undefined. */
  notReady(): string | undefined {
    switch (this.#state.kind) {
      case 'checked':
        return undefined;
      case 'unchecked':
        return 'not checked since the start or a loss';
      case 'unusable':
        return this.#state.reason;
      case 'away':
        return 'not connected';
    }
  }

  /** Whether a view may lack objects that the server had before the view was lost. */
  isRepairing(view: View): boolean {
    return this.#options.parts.informers
      .all()
      .some((informer) => informer.view === view && this.#parts.isBroken(informer));
  }

  /** The reason why a controller's keys do not run yet; undefined when there is none. */
  waitsFor(controller: RunningController): string | undefined {
    const parts = this.#parts;
    const isBroken = parts.isBroken(controller);
    if (!parts.of(controller).wasSound && !isBroken)
      return 'its view and queue are being checked, or its keys are being queued';
    const views = controller.sources.needed.filter((informer) => parts.isBroken(informer));
    if (views.length > 0) return `reading the server again: ${views.map(({ name }) => name).join(', ')}`;
    if (parts.is(controller, 'awaited')) return 'the gateway that leads has not checked its queue';
    return isBroken ? 'unrecorded runs may be in flight' : undefined;
  }

  /**
   * Whether only the leader can repair this part: this gateway follows, and the view, the controller's queue or a view
   * that the controller needs is out of order. This does not count for readiness, because a leader may wait for this
   * gateway to become ready before the leader stops.
   */
  awaitsLeader(part: Part): boolean {
    if (this.#options.writer.term) return false;
    const isAwaited = (each: Part): boolean => this.#parts.is(each, 'awaited');
    return isAwaited(part) || ('queue' in part && part.sources.needed.some(isAwaited));
  }

  /** Checks every second and after each lost connection, until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime;
    const { redis } = this.#location;
    const lost = (): void => {
      this.#losses += 1;
      this.#suspendAll({ kind: 'away' });
    };
    let isBack = new AbortController();
    const back = (): void => {
      // A new connection does not prove that the process behind it still has the data.
      if (this.#state.kind === 'away') this.#state = { kind: 'unchecked' };
      isBack.abort();
    };
    const stopListening = onConnection(redis, lost, back);
    while (!signal.aborted) {
      isBack = new AbortController();
      await this.check(signal);
      await clock.sleep(1000, AbortSignal.any([signal, isBack.signal]));
    }
    stopListening();
  }

  /**
   * Runs one check, and a repair if the check finds a loss. Never rejects. Checks do not overlap: a call during a check
   * gets another check afterwards, because the current one may not see the parts that the caller has just added.
   * Waiting calls share that check.
   */
  check(signal: AbortSignal): Promise<void> {
    if (this.#next?.signal === signal) return this.#next.check;
    const next = { signal, check: this.#checkAfter(this.#checking, signal) };
    this.#next = next;
    this.#checking = next.check;
    return next.check;
  }

  async #checkAfter(previous: Promise<void>, signal: AbortSignal): Promise<void> {
    await previous;
    // From now on this check may already have read a part that a caller adds.
    if (this.#next?.signal === signal) this.#next = undefined;
    if (signal.aborted) return;
    try {
      await this.#check(signal);
    } catch (error) {
      if (this.#state.kind === 'checked') this.#state = { kind: 'unchecked' };
      this.#runtime.logger.warn({ error: messageOf(error) }, 'check of Redis failed, trying again');
    }
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { logger } = this.#runtime;
    // Snapshots: a controller added during this check has not been checked and must not be resumed.
    const controllers = [...this.#options.parts.controllers()];
    const informers = [...this.#options.parts.informers.all()];
    const losses = this.#losses;
    // After a loss the answers so far may be those of an earlier process, and the next check decides.
    const isConnected = (): boolean => losses === this.#losses;
    const reason = await redisNotReady(this.#location.redis, logger);
    if (!isConnected()) return;
    if (reason !== undefined) {
      if (this.#state.kind !== 'unusable') logger.warn({ reason }, 'Redis cannot be used, dispatch is paused');
      return this.#suspendAll({ kind: 'unusable', reason });
    }
    if (this.#state.kind === 'unusable') {
      logger.info({}, 'Redis can be used again, dispatch goes on');
      this.#state = { kind: 'unchecked' };
    }
    const runId = await redisRunId(this.#location.redis);
    await this.#unrecorded.recordProcess(runId, isConnected);
    const { term } = this.#options.writer;
    let read = this.#toRead(controllers, runId, term);
    let lost = await this.#findLost(informers, read, runId, term);
    if (lost?.some((part) => this.#wasInOrder(part)) && read.length < controllers.length) {
      read = controllers;
      lost = await this.#findLost(informers, read, runId, term);
    }
    this.#whole = undefined;
    if (!lost || !isConnected()) return;
    for (const part of [...informers, ...controllers]) {
      const isLost = lost.includes(part);
      const isIncomplete = 'view' in part && !part.synced;
      this.#parts.checked(part, { isLost, awaits: isIncomplete || (isLost && !term) });
    }
    await this.#putBackRuns(controllers, lost, runId);
    const found = { informers, controllers, read, lost, runId, isConnected };
    const inOrder = term
      ? await this.#repairAndEnsure(found, AbortSignal.any([signal, term.signal]))
      : await this.#follow(found);
    if (signal.aborted || this.#state.kind === 'away' || !isConnected()) return;
    this.#state = { kind: 'checked' };
    this.#whole = { runId, term };
    for (const controller of inOrder) {
      // The queue was lost while its keys were queued: the next check begins its repair.
      if (this.#parts.isUnderRepair(controller)) continue;
      if (!this.#parts.of(controller).wasSound) this.#options.onWaitChanged(controller);
      this.#parts.found(controller);
      // A later check queues its keys again, once its watches miss no events any more.
      if (controller.failures.missesEvents !== undefined) this.#parts.unsettle(controller);
      controller.queue.unsuspend();
    }
  }

  /** The controllers whose queues a check reads. */
  #toRead(
    controllers: readonly RunningController[],
    runId: string,
    term: Term | undefined,
  ): readonly RunningController[] {
    const isWhole = this.healthy && this.#whole?.runId === runId && this.#whole.term === term;
    if (!isWhole || controllers.length <= IN_TURN) return controllers;
    const from = this.#nextTurn % controllers.length;
    this.#nextTurn = from + IN_TURN;
    return controllers.filter((each, at) => {
      if (this.#parts.isUnderRepair(each) || each.failures.missesEvents !== undefined) this.#parts.unsettle(each);
      const isInTurn = (at - from + controllers.length) % controllers.length < IN_TURN;
      return isInTurn || !this.#parts.is(each, 'sound') || each.queue.gate.closed;
    });
  }

  /** Whether the part was in order before this check, as far as this gateway knows. */
  #wasInOrder(part: Part): boolean {
    return 'view' in part ? !this.#parts.isBroken(part) : this.#parts.is(part, 'sound');
  }

  #suspend(controller: RunningController): void {
    this.#parts.unsettle(controller);
    controller.queue.suspend(this.#parts.of(controller).isForeign);
  }

  /** The leader's part of a check: repairs the lost parts. @returns the controllers that may run. */
  async #repairAndEnsure(
    { informers, controllers, read, lost, runId, isConnected }: Found,
    signal: AbortSignal,
  ): Promise<readonly RunningController[]> {
    // Before views are listed: if a run of another gateway has ended without a record, it has written before the list,
    // too.
    await this.#unrecorded.sweep();
    const hasQueues = lost.some((part) => 'queue' in part && !this.#parts.of(part).repair);
    if (hasQueues) await this.#unrecorded.untilAnswered(PATIENCE_MS, signal);
    if (!isConnected()) return [];
    const begun = this.#repairs.begin(lost, runId, signal);
    for (const controller of controllers) if (this.#parts.isUnderRepair(controller)) this.#suspend(controller);
    if (begun.length > 0) await this.#waitFor(begun, signal);
    for (const informer of informers)
      if (informer.synced && !this.#parts.isBroken(informer)) this.#parts.found(informer);
    const sound = read.filter((each) => this.#repairs.isCurrent(each) && !this.#parts.isUnderRepair(each));
    const inOrder = await this.#ensureKeys(sound, signal);
    for (const informer of informers) informer.drainOutbox();
    await this.#register(inOrder);
    return inOrder;
  }

  /**
   * The follower's part of a check: lets the controllers run whose parts the leader has left in order. @returns these
   * controllers.
   */
  async #follow({ controllers, read }: Found): Promise<readonly RunningController[]> {
    for (const controller of controllers) if (this.#parts.isUnderRepair(controller)) this.#suspend(controller);
    const sound = read.filter((each) => this.#repairs.isCurrent(each) && !this.#parts.isUnderRepair(each));
    await this.#unrecorded.recordControllers(namesOf(sound), 'kept');
    return sound;
  }

  /**
   * The parts that may have lost data: never written, written on another Redis process, or gone.
   * @returns undefined when another gateway has taken a view: then this gateway must not touch any part that both know.
   */
  async #findLost(
    informers: readonly Informer[],
    controllers: readonly RunningController[],
    runId: string,
    term: Term | undefined,
  ): Promise<Part[] | undefined> {
    const { writer } = this.#options;
    const views = await Promise.all(informers.map((informer) => informer.view.record.state()));
    const queues = await Promise.all(controllers.map(({ queue }) => queue.record.state()));
    controllers.forEach((each, at) => (this.#parts.of(each).isForeign = queues[at]?.isForeign ?? false));
    const isTakenBy = (id: string | undefined): boolean =>
      term !== undefined && id !== undefined && id !== term.writerId;
    const taken = informers.find((informer, at) => informer.isTaken && isTakenBy(views[at]?.writerId));
    if (taken && this.#repairs.isCurrent(taken)) {
      void writer.check(taken.view);
      return undefined;
    }
    const isLost = (
      state: { incarnation: string | undefined; runId: string | undefined; isForeign?: boolean } | undefined,
    ): boolean => state?.incarnation === undefined || state.runId !== runId || state.isForeign === true;
    const lost: Part[] = [
      ...informers.filter((informer, at) => informer.synced && isLost(views[at])),
      ...controllers.filter((_, at) => isLost(queues[at])),
    ];
    // A part that has been removed since does not count as lost.
    return lost.filter((part) => this.#repairs.isCurrent(part));
  }

  /**
   * Puts this gateway's own runs back on record, once in each Redis process. So their keys wait for them, and their
   * ends are recorded as usual. This happens before views are listed: a run that has ended without a record has written
   * before the list. The leader waits for this step, so a queue is not in order before it.
   */
  async #putBackRuns(controllers: readonly RunningController[], lost: readonly Part[], runId: string): Promise<void> {
    const queues = lost.flatMap((part) => ('queue' in part && this.#parts.of(part).putBackOn !== runId ? [part] : []));
    await Promise.all(
      queues.map(async (controller) => {
        await controller.queue.putBackRuns(runId);
        this.#parts.of(controller).putBackOn = runId;
      }),
    );
    await this.#unrecorded.announce(new Set(controllers.map(({ name }) => name)));
  }

  async #waitFor(repairs: readonly Promise<void>[], signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const patience = this.#runtime.clock.sleep(PATIENCE_MS, AbortSignal.any([signal, over.signal]));
    await Promise.race([Promise.all(repairs), patience]);
    over.abort();
  }

  /**
   * Queues all keys of each controller whose keys are due after a loss.
   * @returns the controllers whose keys are queued, and those whose own failure was recorded.
   */
  async #ensureKeys(controllers: readonly RunningController[], signal: AbortSignal): Promise<RunningController[]> {
    const done = new Set<RunningController>();
    const each = async (controller: RunningController): Promise<void> => {
      await controller.ensureKeys().catch((error: unknown) => controller.recordFailure(error));
      done.add(controller);
    };
    await this.#waitFor(controllers.map(each), signal);
    return controllers.filter((controller) => done.has(controller));
  }

  /** Releases the Lease. Call it when no run of this gateway can start any more. Never rejects. */
  release(): Promise<void> {
    return this.#unrecorded.release();
  }

  /** Writes the registry's data again that a gateway otherwise writes only at the beginning of its term. */
  async #register(controllers: readonly RunningController[]): Promise<void> {
    await raiseDataVersion(this.#location);
    await this.#options.parts.informers.record();
    await this.#unrecorded.recordControllers(namesOf(controllers), 'replaced');
  }

  #suspendAll(state: State & { kind: 'unusable' | 'away' }): void {
    this.#state = state;
    for (const controller of this.#options.parts.controllers()) this.#suspend(controller);
  }
}

function namesOf(controllers: readonly RunningController[]): string[] {
  return controllers.map(({ name }) => name);
}
