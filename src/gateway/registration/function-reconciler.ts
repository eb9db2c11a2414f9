import { backoffMs, idOf, messageOf, type Runtime, UserError } from '../../core/index.ts';
import { FALSE, type Finding, TRUE } from './conditions.ts';
import { FILLING, handledBy, isPausedBySpec, pausedOf, refusedBy, reportedReachable, syncedOf } from './findings.ts';
import { FunctionStatus, NOT_CHECKED } from './function-status.ts';
import type { RunningController } from '../controller/running/controller.ts';
import {
  controllerState,
  type ControllerStateWord,
  type ControllerWatch,
  notesOf,
  type QueueFacts,
} from '../controller/running/controller-state.ts';
import type { Controllers } from '../controller/running/controllers.ts';
import type { ResolvedFunction, FunctionResolver } from './function-resolver.ts';
import { ControllerStart } from './controller-start.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import { Reachability } from './reachability.ts';
import type { RightsChanges } from './rights-changes.ts';
import { type RightsReview, RightsReviews } from './rights-review.ts';
import type { PartialReconcileFunction, ReconcileFunction, ReconcileFunctionStatus } from './reconcile-function.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

export interface FunctionReconcilerOptions {
  readonly resolver: FunctionResolver;
  readonly controllers: Controllers;
  readonly writer: FunctionStatusWriter;
  /** Looks at all controllers, and wakes this object when the state of its controller changes. */
  readonly progress: ControllerWatch['progress'] & {
    /** Whether it has seen that the controller is not well, and has not reported yet that it is well again. */
    isIll(controller: string): boolean;
  };
  /** How often rights, Secret and Service are looked at again. */
  readonly reviewMs: number;
  /** The parts of `DeclaredFunctions` that it asks. */
  readonly declared: {
    /**
     * Reads the whole object from the apiserver. Rejects when it is gone, or is another object under the same name: the
     * watch will report that.
     */
    read(object: PartialReconcileFunction, signal: AbortSignal): Promise<ReconcileFunction>;
    /** The reason why a valid object must not run, such as the limit of its namespace; called at each review. */
    check(): InvalidFunctionError | undefined;
  };
  /** Resolves when the removal of an earlier object of the same name has ended; the reconciler waits for it. */
  readonly before?: Promise<void> | undefined;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
}

/**
 * What a pass does again: reads the facts behind the conditions; reviews the object, too; begins anew, for a change of
 * the object or of what decides whether it may run. Each includes those before it.
 */
export type Again = 'facts' | 'review' | 'object';
const LEVELS: readonly Again[] = ['facts', 'review', 'object'];

/** Two passes are at least this far apart, however often something changes, unless the object does. */
const LOOK_MS = 2000;
const RETRY_MS = [1000, 30_000] as const;
/**
 * How often the facts of a controller with failing keys are read again while `Progress` does not know of them: keys may
 * fail and succeed between two of its looks, and then it reports no change.
 */
const ILL_MS = 30_000;

/**
 * Reconciles one ReconcileFunction: starts, updates and stops its controller to match the object and reports the state
 * in `status`. It is level-based: each pass of its one loop reads the newest object and everything that it names; a
 * change of the object ends the current pass. An invalid object stops the controller, and the conditions say why; an
 * apiserver that does not answer changes nothing. No method throws, so one object cannot disturb another.
 *
 * The spec is read from the apiserver when the object may run, and kept as long as it may. An object beyond the limit
 * of its namespace therefore takes no memory for its spec, however large that is.
 *
 * A review asks the apiserver. It runs after a change of the object or of rights that it was asked about, and once a
 * period, because not every authorizer reports changes; also while a controller starts, because until then the old
 * declaration keeps running, by rights that may be withdrawn. All other facts behind the conditions are read when
 * `again` reports a change, or when a state is known to end. For an idle object Redis is asked nothing ([ADR
 * 0032](../../../infra/adr/0032-reconcile-functions.md)).
 */
export class FunctionReconciler {
  readonly #options: FunctionReconcilerOptions;
  readonly #id: string;
  readonly #stopping = new AbortController();
  #object: PartialReconcileFunction;
  /** As it was read last; undefined: the object may not run, or no read has succeeded. */
  #spec: { readonly generation: number | undefined; readonly value: unknown } | undefined;
  /** What the next pass does again. */
  #again: Again | undefined = 'object';
  /** Of the pass under way: aborted when the object changes, and at the end. */
  #turn = new AbortController();
  /** Ends the rest between two passes, as an abort of the turn does. */
  #rest = new AbortController();
  /** A pass follows as soon as it has ended. */
  #starting: ControllerStart | undefined;
  #startMs = 0;
  #looked = Promise.withResolvers<void>();
  /** The resolved function that the running controller was started from. */
  #started: ResolvedFunction | undefined;
  #paused: boolean | undefined;
  readonly #status: FunctionStatus;
  readonly #reachability: Reachability;
  readonly #rights: RightsReviews;
  /** The last facts read from its queue; undefined while it does not run. */
  #facts: QueueFacts | undefined;
  /** Ends the rest of `LOOK_MS` after a pass. */
  #pause = new AbortController();
  #readAtMs = 0;
  #failures = 0;
  /** Why it did not run when it was looked at last, as the log has it. */
  #refused: string | undefined;
  #reviewAtMs = 0;
  /** When the first state of the last look ends by itself; Infinity: none does. */
  #endsMs = Infinity;
  readonly #ended: Promise<void>;

  constructor(object: PartialReconcileFunction, options: FunctionReconcilerOptions) {
    this.#options = options;
    this.#id = idOf(object);
    this.#object = object;
    this.#status = new FunctionStatus(object, options);
    this.#reachability = new Reachability(options.runtime.clock, (work) => options.resolver.inTurn(this.#id, work));
    this.#reachability.adopt(reportedReachable(object));
    this.#paused = isPausedBySpec(object) ? true : undefined;
    this.#rights = new RightsReviews(options.runtime.clock);
    this.#ended = this.#run();
  }

  get uid(): string {
    return this.#object.metadata.uid;
  }

  get namespace(): string {
    return this.#object.metadata.namespace ?? '';
  }

  get name(): string {
    return this.#object.metadata.name;
  }

  /**
   * Whether it is known if it runs: it was refused, or its controller runs or waits for its part of the cache. Not so
   * while it waits for processor time, or for an apiserver that does not answer.
   */
  get isDecided(): boolean {
    if (this.#refused !== undefined || this.#starting?.controller) return true;
    return this.#options.controllers.get(this.#id) !== undefined;
  }

  /** As the object has it: the gateway that leads reports it. */
  get status(): ReconcileFunctionStatus | undefined {
    return this.#object.status ?? this.#status.written;
  }

  /** The last answer that this gateway got about its rights; undefined before the first answer. */
  get rights(): RightsReview | undefined {
    return this.#rights.last;
  }

  /** As the apiserver writes it, which sorts by time. */
  get createdAt(): string {
    return this.#object.metadata.creationTimestamp ?? '';
  }

  /** The object has been looked at once: whether it runs is known, or it only waits for its part of the cache. */
  get looked(): Promise<void> {
    return this.#looked.promise;
  }

  /** Replaces the object by a newer state, and ends the pass for the older one. */
  update(object: PartialReconcileFunction): void {
    const same = object.metadata.generation === this.#object.metadata.generation;
    this.#object = this.#status.withoutCopy(object);
    if (!same) this.again('object');
    else if (this.#leads && this.#status.noticeOthers(this.#object)) this.again('facts');
  }

  /**
   * Something has changed: another pass follows, `LOOK_MS` after the last one at the earliest, or at once (`object`).
   */
  again(what: Again): void {
    const asked = this.#again ?? 'facts';
    this.#again = LEVELS.indexOf(what) > LEVELS.indexOf(asked) ? what : asked;
    if (what === 'object') {
      this.#starting?.abort();
      this.#turn.abort();
      this.#pause.abort();
    }
    this.#rest.abort();
  }

  /**
   * Rights have changed: they are reviewed at once, or 2 s after their last review. When they change time and again,
   * they are reviewed every 30 s.
   */
  rightsChanged(changes: RightsChanges): void {
    const nowMs = this.#options.runtime.clock.now();
    const waitMs = this.#rights.waitMs(changes);
    if (waitMs === 0) {
      this.again('review');
      if (nowMs >= this.#rights.askedMs + LOOK_MS) this.#pause.abort();
    } else if (waitMs !== undefined && nowMs + waitMs < this.#reviewAtMs) {
      this.#reviewAtMs = nowMs + waitMs;
      this.#rest.abort();
    }
  }

  /** This gateway leads from now on: it reports the state that it sees, where the object's status differs. */
  lead(): void {
    this.#status.adopt(this.#object);
    this.#reachability.adopt(reportedReachable(this.#object));
    this.#paused = isPausedBySpec(this.#object) ? true : undefined;
    this.again('facts');
  }

  /** Ends the loop; the controller runs on until it is stopped. */
  async end(): Promise<void> {
    this.#stopping.abort();
    this.#starting?.abort();
    this.#turn.abort();
    this.#pause.abort();
    this.#rest.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { before, runtime } = this.#options;
    const { clock } = runtime;
    await before;
    while (!this.#stopping.signal.aborted) {
      this.#turn = new AbortController();
      // `end` aborts it, too: a combined signal for each of very many objects at rest would take 1 KB and more.
      const { signal } = this.#turn;
      const again = this.#again;
      this.#again = undefined;
      if (again === 'object') this.#failures = 0;
      if (again === 'object' || again === 'review') this.#reviewAtMs = 0;
      try {
        if (this.#starting?.isAborted) await this.#giveUpStart();
        if (this.#starting?.ended.aborted) await this.#try(signal, () => this.#endStart());
        if (clock.now() >= this.#reviewAtMs) await this.#try(signal, () => this.#review(signal));
        if (!signal.aborted) await this.#look(again !== undefined, signal);
      } catch (error) {
        this.again('facts');
        this.#options.controllers.log.write(
          'error',
          this.#id,
          { error: messageOf(error) },
          'the reconciliation of a ReconcileFunction failed',
        );
      }
      this.#looked.resolve();
      await this.#untilNext(signal);
    }
    await this.#giveUpStart();
    this.#looked.resolve();
  }

  /** Until there is a reason for another pass. */
  async #untilNext(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.runtime;
    this.#rest = new AbortController();
    this.#pause = new AbortController();
    // The pass that has ended may have been given up.
    if (signal.aborted) return;
    const startEnded = this.#starting?.ended;
    const atOnce = startEnded ? AbortSignal.any([this.#pause.signal, startEnded]) : this.#pause.signal;
    await clock.sleep(LOOK_MS, atOnce);
    if (this.#again || atOnce.aborted) return;
    // Each abort of the turn aborts the rest, too.
    const rested = startEnded ? AbortSignal.any([startEnded, this.#rest.signal]) : this.#rest.signal;
    await clock.sleep(Math.max(0, this.#nextMs() - clock.now()), rested);
  }

  /** When the next review is due, or something ends by itself. */
  #nextMs(): number {
    const controller = this.#options.controllers.get(this.#id);
    if (!controller || !this.#started || this.#starting) return this.#reviewAtMs;
    const askedMs = this.#leads ? this.#reachability.dueMs(this.#started.hash, controller.circuit?.reason) : Infinity;
    return Math.min(this.#reviewAtMs, this.#endsMs, askedMs, this.#rereadMs);
  }

  /** When the facts are read again although nothing has reported a change. */
  get #rereadMs(): number {
    const { failing = 0, dead = 0 } = this.#facts?.sizes ?? {};
    if (!this.#leads || failing + dead === 0 || this.#options.progress.isIll(this.#id)) return Infinity;
    return this.#readAtMs + ILL_MS;
  }

  /** Looks at everything, and starts, changes or stops the controller. */
  async #review(signal: AbortSignal): Promise<void> {
    const { controllers, resolver, reviewMs, runtime } = this.#options;
    const refused = this.#options.declared.check();
    if (refused) {
      this.#spec = undefined;
      throw refused;
    }
    const declared = await this.#read(signal);
    const resolved = await this.#rights.during(signal, () =>
      resolver.resolve(declared, signal, {
        waiting: () => this.#looked.resolve(),
        asking: (asked) => this.#rights.asking(asked),
      }),
    );
    this.#status.record({ Authorized: TRUE('Allowed', 'The ServiceAccount may read all that is asked for.') });
    if (this.#starting?.ended.aborted) await this.#endStart();
    if (this.#starting?.resolved.hash === resolved.hash) {
      // The new declaration still waits for its cache, and the old one runs by rights that it may have lost. A start
      // takes its time to begin with, and the new declaration may do without these rights.
      const isLate = runtime.clock.now() >= this.#startMs + reviewMs;
      const withdrawn = isLate ? await this.#withdrawn(signal) : undefined;
      if (withdrawn) throw withdrawn;
    } else {
      await this.#giveUpStart();
      // An older object may have been resolved: the next pass resolves the newer one.
      signal.throwIfAborted();
      if (this.#started?.hash === resolved.hash && controllers.get(this.#id)) this.#runs(resolved);
      else await this.#start(resolved);
    }
    this.#reviewAtMs = runtime.clock.now() + reviewMs;
  }

  /** The object with its spec, which is read from the apiserver once for each generation. */
  async #read(signal: AbortSignal): Promise<ReconcileFunction> {
    if (!this.#spec || this.#spec.generation !== this.#object.metadata.generation) {
      const { metadata, spec } = await this.#options.declared.read(this.#object, signal);
      // The answer may be newer than the watch. The resolver knows a spec that it has resolved before.
      if (this.#spec?.generation !== metadata.generation) {
        this.#spec = { generation: metadata.generation, value: spec };
      }
    }
    return { ...this.#object, spec: this.#spec?.value };
  }

  async #start(resolved: ResolvedFunction): Promise<void> {
    this.#status.record({ Synced: FILLING });
    this.#facts = undefined;
    this.#startMs = this.#options.runtime.clock.now();
    this.#starting = new ControllerStart(resolved, this.#options.controllers);
    await this.#starting.begun;
    this.#looked.resolve();
    if (this.#starting.ended.aborted) await this.#endStart();
  }

  /** Takes over from a start that has ended. @throws InvalidFunctionError when the controller cannot run. */
  async #endStart(): Promise<void> {
    const starting = this.#starting;
    if (!starting) return;
    this.#starting = undefined;
    try {
      await starting.done;
    } catch (error) {
      throw error instanceof UserError ? new InvalidFunctionError('Ready', 'NotRunnable', messageOf(error)) : error;
    }
    this.#runs(starting.resolved);
  }

  /** The controller runs as resolved. */
  #runs(resolved: ResolvedFunction): void {
    // A pass before this one may have read the facts by the old spec.
    if (this.#started?.paused !== resolved.paused) this.#facts = undefined;
    this.#started = resolved;
    this.#refused = undefined;
    this.#failures = 0;
  }

  /** A failure is tried again after a backoff. What must not run is stopped. */
  async #try(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const { clock } = this.#options.runtime;
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      this.#failures += 1;
      const waitMs = backoffMs(RETRY_MS, this.#failures);
      this.#reviewAtMs = clock.now() + waitMs;
      const invalid = error instanceof InvalidFunctionError ? error : await this.#withdrawn(signal);
      if (invalid) return this.#refuse(invalid, signal);
      this.#options.controllers.log.write(
        'warn',
        this.#id,
        { error: messageOf(error), waitMs },
        'a ReconcileFunction could not be resolved, trying again',
      );
    }
  }

  /** Whether the running controller has lost its rights, as far as the apiserver answers. */
  async #withdrawn(signal: AbortSignal): Promise<InvalidFunctionError | undefined> {
    const started = this.#started;
    if (!started) return undefined;
    try {
      await this.#rights.during(signal, () => started.checkRights(signal));
      return undefined;
    } catch (error) {
      // The controller of the new declaration has replaced it during the request.
      const isOld = this.#starting?.ended.aborted === true;
      return error instanceof InvalidFunctionError && !isOld ? error : undefined;
    }
  }

  /** Ends a start that is under way. Never rejects. */
  async #giveUpStart(): Promise<void> {
    const starting = this.#starting;
    if (!starting) return;
    starting.abort();
    const hasStarted = await starting.done.then(
      () => true,
      () => false,
    );
    if (hasStarted) this.#started = starting.resolved;
    this.#starting = undefined;
  }

  /** Stops the controller of an object that must not run, because it was changed or has lost its rights. */
  async #refuse({ condition, reason, message }: InvalidFunctionError, signal: AbortSignal): Promise<void> {
    const { controllers } = this.#options;
    await this.#giveUpStart();
    if (signal.aborted) return;
    this.#started = undefined;
    this.#facts = undefined;
    this.#reachability.forget();
    // Once, however often it is looked at again.
    if (message !== this.#refused)
      this.#options.controllers.log.write(
        'info',
        this.#id,
        { reason, error: message },
        'a ReconcileFunction cannot run',
      );
    this.#refused = message;
    const withdrawn = condition === 'Authorized';
    await controllers.stop(this.#id, { withdrawn }).catch((error: unknown) => {
      this.#options.controllers.log.write('warn', this.#id, { error: messageOf(error) }, 'a controller failed to stop');
    });
    const stopped = FALSE('NotRunning', 'Nothing is read for it: see the condition Ready.');
    this.#status.record({
      Authorized: NOT_CHECKED,
      Synced: stopped,
      EventsHandled: NOT_CHECKED,
      Reachable: NOT_CHECKED,
    });
    const finding = FALSE(reason, message);
    if (condition !== 'Ready') this.#status.record({ [condition]: finding });
    await this.#report(undefined, finding, signal);
  }

  /** Reports the state that can change without the object and is cheap to read. */
  async #look(isStale: boolean, signal: AbortSignal): Promise<void> {
    const { controllers, progress } = this.#options;
    if (this.#starting) {
      const { controller, resolved } = this.#starting;
      this.#status.record({ Synced: (controller && refusedBy(controller)) ?? FILLING });
      // A write that has begun is seen to its end.
      return this.#report(resolved.controller.url, undefined, this.#stopping.signal);
    }
    const controller = controllers.get(this.#id);
    const resolved = this.#started;
    if (!controller || !resolved) return;
    if (controller.sources.outdated) this.#reviewAtMs = 0;
    this.#endsMs = controller.failures.endsMs;
    this.#status.record({ EventsHandled: handledBy(controller, progress.stalled(this.#id)) });
    const isDue = this.#options.runtime.clock.now() >= this.#rereadMs;
    if (isStale || isDue || !this.#facts) await this.#readFacts(controller, resolved.paused);
    // Only the gateway that reports it asks the function.
    if (!this.#leads) return;
    const { circuit, endpoint } = controller;
    const heard = { openReason: circuit?.reason, lastAnswer: endpoint.lastAnswer };
    this.#status.record({ Reachable: await this.#reachability.look(resolved.controller, resolved.hash, heard) });
    await this.#report(resolved.controller.url, undefined, signal);
  }

  /** Reads the facts that are in Redis, and brings the pause there in line with the spec first. */
  async #readFacts(controller: RunningController, paused: boolean | undefined): Promise<void> {
    try {
      await this.#applyPaused(controller, paused);
      this.#status.record({ Synced: await syncedOf(controller, this.#options.controllers.waitsFor(controller)) });
      this.#facts = await controller.queue.inspector.levels();
      this.#readAtMs = this.#options.runtime.clock.now();
      const isPaused = this.#facts.pauses.some(({ scope }) => scope === 'controller');
      // Redis has lost the pause, or a person has ended it with `levelhook resume`.
      if (paused && !isPaused && this.#leads) await controller.queue.pause('controller');
      this.#status.record({ Paused: pausedOf(paused, isPaused) });
    } catch {
      // Redis does not answer: the last facts stay.
      this.again('facts');
    }
  }

  /**
   * `spec.paused: true` pauses the queue, and `#readFacts` pauses it again if the pause is lost or ended by hand.
   * `false`, or removing the field, resumes it, also after another gateway has paused it. Without the field the queue
   * is left alone.
   */
  async #applyPaused(controller: RunningController, paused: boolean | undefined): Promise<void> {
    controller.pausedBySpec = paused === true;
    if (paused === this.#paused || !this.#leads) return;
    if (paused) await controller.queue.pause('controller');
    else if (paused === false || this.#paused) await controller.queue.resume('controller');
    this.#paused = paused;
  }

  /** Only then it writes the status and applies `spec.paused`. */
  get #leads(): boolean {
    return this.#options.writer.leads;
  }

  /** Of its controller, by the queue as it was read last; undefined while it does not run. */
  get #state(): ControllerStateWord | undefined {
    const { controllers, progress } = this.#options;
    const controller = controllers.get(this.#id);
    if (!controller || !this.#facts) return undefined;
    return controllerState({ ...notesOf(controller, { controllers, progress }), ...this.#facts });
  }

  async #report(url: string | undefined, failure: Finding | undefined, signal: AbortSignal): Promise<void> {
    if (!this.#leads) return;
    const isWritten = await this.#status.write(this.#object, { url, failure, state: this.#state }, signal);
    if (!isWritten && !signal.aborted) this.again('facts');
  }
}
