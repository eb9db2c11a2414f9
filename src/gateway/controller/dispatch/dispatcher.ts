import { randomUUID } from 'node:crypto';
import {
  type AdmittedLine,
  type CounterName,
  formatKind,
  formatObjectKey,
  type LogFields,
  messageOf,
  parseObjectKey,
  type RequestSource,
  type ResourceVersion,
  type Runtime,
} from '../../../core/index.ts';
import {
  type CallbackLocation,
  CONTRACT_VERSION,
  type KubernetesLocation,
  type RequestResult,
  type Trigger,
  type Write,
} from '../../../contract/index.ts';
import type { View } from '../../informer/cache/view.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { Finish, Process, Run, ShownWrite, WriteSummary } from '../workqueue/work-queue.ts';
import { Barriers } from './barrier.ts';
import type { CacheAccess } from '../access/cache-access.ts';
import type { KubernetesAccess } from '../access/kubernetes-credentials.ts';
import type { RecordedWrites } from './recorded-writes.ts';
import { noSource, type RelatedObjects } from './related-objects.ts';
import { ColdStart } from '../endpoint/cold-start.ts';
import type { Answer, Endpoint } from '../endpoint/endpoint.ts';
import { EndpointCircuitBreaker, type KeyStarts } from '../endpoint/endpoint-circuit-breaker.ts';
import type { Hold } from '../endpoint/held-bytes.ts';
import { decodeLine, decodeOutcomes, fromResult, type Outcome, type SentTrigger } from '../endpoint/outcome.ts';
import { decide, decideLost, NOT_SENT, type ReconcileResult } from './requeue-policy.ts';

/** A view that the dispatcher's controller reads, with the questions to the apiserver about it. */
export interface DispatchView {
  readonly view: View;
  /**
   * Whether the view has ever been complete. A barrier on the server's current state leaves out other views. Default:
   * it has.
   */
  readonly isComplete?: () => boolean;
  /** The resource's version at the apiserver, read consistently. */
  readonly currentVersion: () => Promise<ResourceVersion | undefined>;
  /** Asks the apiserver for an event that moves the view's version. */
  readonly requestProgress: () => void;
}

/** A function: where its triggers go, and the addresses in them for reading the cache and for callbacks. */
export interface TriggerTarget {
  readonly endpoint: Endpoint;
  readonly cacheAccess: CacheAccess;
  /** Where the function sends callbacks. Undefined: it may send none. */
  readonly callback?: CallbackTarget | undefined;
  /** The credentials in its triggers, with which it reads live and writes. Undefined: it has credentials of its own. */
  readonly kubernetes?: KubernetesAccess | undefined;
  /** The writes of its runs through the gateway. Undefined: its outcomes alone name writes. */
  readonly recorded?: RecordedWrites | undefined;
  /** Undefined: its outcomes may name no related objects. */
  readonly related?: RelatedObjects | undefined;
}

/** Where a function sends callbacks. */
export interface CallbackTarget {
  /** How long a run may go on without a callback, in seconds. */
  readonly maxSeconds: number;
  /** For a trigger of these runs. */
  readonly location: (runs: readonly Run[]) => CallbackLocation;
}

export interface DispatcherOptions {
  /** In metrics and logs. */
  readonly controller: string;
  /** The function's own name for the controller. Default: the same. */
  readonly functionName?: string;
  readonly target: TriggerTarget;
  readonly views: readonly DispatchView[];
  /**
   * `keys`: where the circuit breaker sets how many keys may start. `ending`: aborted when no more triggers are sent.
   */
  readonly starts: { readonly keys: KeyStarts; readonly ending: AbortSignal };
  readonly bounds: ControllerBounds;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly settings: DispatcherSettings;
}

/** The share of this process that a controller may use. */
export interface ControllerBounds {
  /**
   * Processor time for the work that its function's description and answers cause in the gateway. When it is used up,
   * answers wait to be decoded; their runs hold their slots while they wait, so fewer runs begin.
   */
  readonly budget: CpuBudget;
  /**
   * Pays for reviews: the controller's own budget, except for reviews of an unknown source, which anyone may make up.
   * Each unknown source has its own budget for the controller, so that such reviews do not delay the controller's runs.
   */
  readonly reviewBudget: (source: RequestSource) => CpuBudget;
  /** For the bytes of one answer of its function, or of one callback. */
  readonly openHold: () => Hold;
  /** Whether a line about a failed run may be logged as a warning. */
  readonly admitLine: () => AdmittedLine | undefined;
}

export interface DispatcherSettings {
  /** Logs each trigger at info rather than debug. */
  readonly logTriggers: boolean;
  /** See `ColdStart`. */
  readonly startWindowMs: number;
}

/** Characters of a barrier, which Redis sends at each look: the names of some 400 deleted objects. */
const LONGEST_BARRIER = 32_768;

/**
 * Runs the keys of one controller by signed triggers, one run in each or a batch; each outcome is decoded and decided
 * upon.
 */
export class Dispatcher implements Process {
  readonly #options: DispatcherOptions;
  readonly #barriers: Barriers;
  readonly #circuitBreaker: EndpointCircuitBreaker;
  readonly #coldStart: ColdStart;
  /** When the version of a view at the server was last asked for. */
  readonly #askedAtMs = new Map<View, number>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const { controller, runtime, settings, starts, target } = options;
    const { endpoint } = target;
    const views = options.views.map(({ view }) => view);
    this.#barriers = new Barriers(views, runtime.clock);
    this.#circuitBreaker = new EndpointCircuitBreaker({ controller, ...starts, runtime });
    this.#coldStart = new ColdStart({ endpoint, clock: runtime.clock, windowMs: settings.startWindowMs });
  }

  /** Why no triggers are sent at present, if so. */
  get openReason(): string | undefined {
    return this.#circuitBreaker.openReason;
  }

  run(run: Run): Promise<Finish> {
    return this.runAll([run])[0] as Promise<Finish>;
  }

  runAll(runs: readonly Run[]): readonly Promise<Finish>[] {
    const finishes = runs.map(() => Promise.withResolvers<Finish>());
    this.#send(runs, (at, finish) => finishes[at]?.resolve(finish)).catch((error: unknown) => {
      // The trigger may have been sent.
      for (const { resolve } of finishes) resolve({ kind: 'unknown', error: messageOf(error) });
    });
    return finishes.map(({ promise }) => promise);
  }

  /** Sends one trigger for all runs. Calls `onFinish` once for each run, when its result has arrived. */
  async #send(runs: readonly Run[], onFinish: (at: number, finish: Finish | Promise<Finish>) => void): Promise<void> {
    const { clock } = this.#options.runtime;
    const { cacheAccess, callback: later, kubernetes: access, related } = this.#options.target;
    // First: it notices when the connection to Redis is lost after these runs have begun.
    const cache = await cacheAccess.location(runs).catch(() => undefined);
    if (!cache || (related && (await related.isBehind()))) {
      // No trigger was sent, because the position of a view could not be read or a related kind is missing here. Both
      // pass within seconds, and another gateway may be ready now.
      runs.forEach((_, at) => onFinish(at, BEHIND));
      return;
    }
    const callback = later?.location(runs);
    const kubernetes = access && (await this.#kubernetes(access, runs));
    if (kubernetes instanceof Error) {
      const { message: error } = kubernetes;
      runs.forEach(({ failures }, at) => onFinish(at, { ...decideLost(failures), error }));
      return;
    }
    const startedAt = clock.now();
    // The trigger has one deadline: the earliest of its runs.
    const deadlineMs = Math.min(...runs.map((run) => run.deadlineMs));
    // A batch has one ID, which the function's log shows as well. With key and run number it identifies a run.
    const id = randomUUID();
    const refused = runs.map(() => this.#circuitBreaker.refuses());
    if (refused.some((isRefused) => isRefused)) {
      // These runs had started before a circuit opened. Another gateway may send a trigger now.
      refused.forEach((_, at) => onFinish(at, NOT_SENT));
      return;
    }
    const outcomes: (Outcome | undefined)[] = runs.map(() => undefined);
    const record = (at: number, outcome: Outcome): void => {
      const run = runs[at];
      // The first outcome of a run counts.
      if (!run || outcomes[at]) return;
      outcomes[at] = outcome;
      onFinish(at, this.#finish(run, outcome, { id, durationMs: clock.now() - startedAt }));
    };
    const { budget, openHold } = this.#options.bounds;
    const onLine = (text: string): Promise<void> | undefined => {
      const line = budget.run(() => decodeLine(text, callback));
      const at = line ? runs.findIndex(({ run }) => run === line.run) : -1;
      if (line && at >= 0) record(at, line.outcome);
      else this.#ignoreLine();
      return budget.limitMs > 0 ? undefined : budget.inTurn(() => {});
    };
    await this.#circuitBreaker.run(async () => {
      const notSent = this.#coldStart.isInDoubt ? await this.#notSent(deadlineMs - startedAt) : undefined;
      if (notSent) {
        runs.forEach((_, at) => record(at, notSent));
        return [notSent];
      }
      const timeoutMs = deadlineMs - clock.now();
      const trigger = {
        ...this.#trigger(runs, timeoutMs, cache),
        ...(callback && { callback }),
        ...(kubernetes && { kubernetes }),
      };
      const body = JSON.stringify(trigger);
      const streamed = runs.length > 1 ? onLine : undefined;
      const hold = openHold();
      try {
        const answer = await this.#coldStart.send({ method: 'POST', body, id, timeoutMs, onLine: streamed, hold });
        const sent = { requests: runs.length, callback };
        const decoded = await budget.inTurn(() => this.#outcomesOf(answer, sent));
        runs.forEach((_, at) => record(at, decoded[at] ?? NO_OUTCOME));
        return outcomes.map((outcome) => outcome ?? NO_OUTCOME);
      } finally {
        hold.release();
      }
    });
  }

  /** The credentials for a trigger of these runs. On an error nothing is sent, and the runs have failed. */
  async #kubernetes(access: KubernetesAccess, runs: readonly Run[]): Promise<KubernetesLocation | Error> {
    try {
      return await access.location(runs);
    } catch (error) {
      const reason = `there are no credentials for the function: ${messageOf(error)}`;
      this.#warn({ error: reason }, 'a trigger could not be sent');
      this.#countResult('error');
      return new Error(reason);
    }
  }

  /** The outcome of runs whose trigger must not be sent now; undefined: it may be sent. */
  async #notSent(timeoutMs: number): Promise<Outcome | undefined> {
    const { clock } = this.#options.runtime;
    const askedAt = clock.now();
    const absence = await this.#coldStart.absence(timeoutMs);
    if (absence !== undefined) return startingOf(absence);
    // The start of the function has used up the time of this run: it gets another run, with its whole time.
    if (clock.now() - askedAt <= timeoutMs / 10) return undefined;
    return { kind: 'not-sent', message: 'the function has just started', isThere: true };
  }

  #outcomesOf(answer: Answer, sent: SentTrigger): readonly Outcome[] {
    const outcomes = decodeOutcomes(answer, sent, this.#options.runtime.clock.wallNow());
    if (answer.kind !== 'refused' || !this.#coldStart.isStarting) return outcomes;
    return outcomes.map(() => startingOf(answer.message));
  }

  #ignoreLine(): void {
    const { controller, runtime } = this.#options;
    runtime.metrics.count('levelhook_ignored_result_lines_total', { controller });
    runtime.logger.debug({ controller }, 'a line of a streamed answer names no run of its trigger');
  }

  async #finish(run: Run, decoded: Outcome, trigger: { id: string; durationMs: number }): Promise<Finish> {
    const { controller, runtime } = this.#options;
    const { clock, metrics } = runtime;
    const outcome = 'related' in decoded ? await this.#withRelatedChecked(decoded) : decoded;
    const { finish, result } = decide(outcome, run.failures, clock.now());
    if (outcome.kind === 'not-sent') {
      this.#circuitBreaker.countNotSent('starting');
      this.#log(run, outcome, finish, trigger);
      return withSummary(finish, outcome);
    }
    metrics.observe('controller_runtime_reconcile_time_seconds', { controller }, trigger.durationMs / 1000);
    this.#countResult(result, outcome);
    metrics.count('levelhook_triggers_total', { controller, outcome: outcome.kind });
    if (outcome.kind === 'unknown') {
      metrics.count('levelhook_unknown_outcomes_total', { controller, reason: outcome.reason });
    }
    this.#log(run, outcome, finish, trigger);
    if (this.#options.target.related) await this.#recordRelated(run, outcome);
    const reported = writesOf(outcome);
    const { recorded } = this.#options.target;
    const ended = withSummary(finish, outcome);
    if (recorded && ended.kind === 'ended') return this.#withRecorded(recorded, run, ended, reported);
    return this.#withBarrier(ended, reported);
  }

  /** Ends the writes of a run: from now on the gateway passes on none. @throws when Redis does not answer */
  async #withRecorded(
    recorded: RecordedWrites,
    run: Pick<Run, 'key' | 'run' | 'deadlineMs'>,
    finish: Finish & { readonly kind: 'ended' },
    reported: readonly Write[],
  ): Promise<Finish> {
    const { writes, isUnanswered, isUnclear } = await recorded.end(run);
    if (isUnanswered) return this.#unanswered();
    const all = [...writes, ...reported];
    const shown = all.length > 0 ? { ...finish, wrote: wroteOf(all) } : finish;
    if (!isUnclear) return this.#withBarrier(shown, all);
    // The server's current version is after all of these writes.
    const barrier = await this.#barrierOfNow();
    return barrier === undefined ? shown : { ...shown, barrier };
  }

  /** Makes a run fail that names related objects which could never wake its key. */
  async #withRelatedChecked(outcome: Outcome): Promise<Outcome> {
    if (!('related' in outcome) || !outcome.related?.length) return outcome;
    const { related } = this.#options.target;
    const [first] = outcome.related;
    const message = related ? await related.refusal(outcome.related) : first && noSource(formatKind(first));
    return message === undefined ? outcome : { kind: 'error', message, writes: outcome.writes };
  }

  /** Stores the related rules of a run, before its end is recorded. @throws when Redis does not answer */
  async #recordRelated(run: Pick<Run, 'key' | 'run'>, outcome: Outcome): Promise<void> {
    if ('writes' in outcome) await this.#options.target.related?.record(run, outcome.related);
  }

  #unanswered(): Finish {
    const { controller, runtime } = this.#options;
    runtime.metrics.count('levelhook_unknown_outcomes_total', { controller, reason: 'write' });
    return { kind: 'unknown', error: 'a write of the run got no answer from the apiserver' };
  }

  /**
   * Decides the end of a run whose outcome came by callback. The run may have written from anywhere, so its list of
   * writes is not relied on. The run had ended before its callback, so the key's next run waits until the cache shows
   * the server's current state.
   * @throws when the apiserver does not give its current version
   */
  async concluded(run: Omit<Run, 'reasons' | 'incarnation'>, reported: RequestResult): Promise<Finish> {
    const { callback } = this.#options.target;
    const { clock } = this.#options.runtime;
    const outcome = await this.#withRelatedChecked(fromResult(reported, callback));
    const { finish, result } = decide(outcome, run.failures, clock.now());
    const { recorded } = this.#options.target;
    const isUnanswered = finish.kind === 'ended' && (await recorded?.end(run))?.isUnanswered;
    if (isUnanswered) return this.#unanswered();
    const barrier = finish.kind === 'ended' ? await this.#barrierOfNow() : undefined;
    await this.#recordRelated(run, outcome);
    this.#countResult(result, outcome);
    return { ...withSummary(finish, outcome), ...(barrier === undefined ? {} : { barrier }) };
  }

  async lost(run: { key: string; run: number; failures: number }): Promise<Finish & { readonly kind: 'ended' }> {
    const barrier = await this.#barrierOfNow();
    // After it, so that the barrier does not depend on it.
    const wrote = await this.#wroteBeforeLost(run);
    const finish = { ...decideLost(run.failures), ...(wrote ? { wrote } : {}) };
    const { againAfterMs } = finish;
    this.#warn({ ...run, againAfterMs }, 'the deadline of a run has passed without an outcome');
    return { ...finish, ...(barrier === undefined ? {} : { barrier }) };
  }

  /** For people. The barrier covers all that was written before the deadline anyway. */
  async #wroteBeforeLost(run: { key: string; run: number }): Promise<WriteSummary | undefined> {
    const { recorded } = this.#options.target;
    const record = await recorded?.end({ ...run, deadlineMs: 0 });
    return record && record.writes.length > 0 ? wroteOf(record.writes) : undefined;
  }

  async #barrierOfNow(): Promise<string | undefined> {
    const versions = await Promise.all(
      this.#options.views
        .filter(({ isComplete }) => isComplete?.() ?? true)
        .map(async ({ view, currentVersion }) => [view, await currentVersion()] as const),
    );
    // No event reports writes of a kind that is not served.
    const served = versions.flatMap(([view, version]) => (version === undefined ? [] : [[view, version] as const]));
    return this.#barriers.afterLost(new Map(served));
  }

  /** @param outcome Default: no trigger was sent. */
  #countResult(result: ReconcileResult | undefined, outcome?: Outcome): void {
    const { controller, runtime } = this.#options;
    const { metrics } = runtime;
    if (result === undefined) return;
    metrics.count('controller_runtime_reconcile_total', { controller, result });
    if (result !== 'error') return;
    metrics.count('controller_runtime_reconcile_errors_total', { controller });
    const counter = outcome && errorCounterOf(outcome);
    if (counter) metrics.count(counter, { controller });
  }

  async passed(barrier: string): Promise<boolean> {
    const { budget } = this.#options.bounds;
    return budget.inTurn(() => this.#barriers.passed(barrier));
  }

  late(barrier: string): void {
    this.#options.bounds.budget.run(() => this.#askForLate(barrier));
  }

  #askForLate(barrier: string): void {
    const waitedFor = new Set(this.#barriers.viewsOf(barrier));
    for (const each of this.#options.views) {
      if (!waitedFor.has(each.view)) continue;
      // First the server's own version: for a write that never happened, no progress would be enough.
      if (this.#barriers.hasHighWaterMark(barrier, each.view)) each.requestProgress();
      else void this.#askHighWaterMark(barrier, each);
    }
  }

  async #askHighWaterMark(barrier: string, { view, currentVersion, requestProgress }: DispatchView): Promise<void> {
    const { controller, runtime } = this.#options;
    const { clock, logger, metrics } = runtime;
    const askedAtMs = clock.now();
    // Barriers that are late together share one answer; an apiserver that is away is not asked at each tick.
    if (askedAtMs - (this.#askedAtMs.get(view) ?? 0) < ASK_EVERY_MS) return;
    this.#askedAtMs.set(view, askedAtMs);
    try {
      const { incarnation } = await view.record.state();
      const version = await currentVersion();
      // A kind that is not served has no events, so any version of its view is new enough.
      this.#barriers.learn(view, { version: version ?? BEFORE_ALL, incarnation, askedAtMs });
      if (version === undefined || !this.#barriers.isImpossible(barrier, view)) return;
      metrics.count('levelhook_impossible_writes_total', { controller });
      logger.warn(
        { controller, resource: view.name, barrier },
        'a barrier waits for a version that the server does not have',
      );
    } catch (error) {
      logger.warn(
        { controller, resource: view.name, error: messageOf(error) },
        'the version of a resource could not be read',
      );
      requestProgress();
    }
  }

  #trigger(runs: readonly Run[], timeoutMs: number, cache: Trigger['cache']): Trigger {
    return {
      version: CONTRACT_VERSION,
      controller: this.#options.functionName ?? this.#options.controller,
      // Compared with the function's clock, so by the wall clock here: the deadline itself is steady.
      deadline: new Date(this.#options.runtime.clock.wallNow() + timeoutMs).toISOString(),
      remainingSeconds: timeoutMs / 1000,
      cache,
      requests: runs.map(({ key, failures, run, reasons }) => ({
        ...parseObjectKey(key),
        attempt: failures + 1,
        run,
        reasons,
      })),
    };
  }

  async #withBarrier(finish: Finish, writes: readonly Write[]): Promise<Finish> {
    if (finish.kind !== 'ended' || writes.length === 0) return finish;
    const barrier = await this.#options.bounds.budget.run(() => this.#barriers.afterWrites(writes));
    if (barrier === undefined) return finish;
    if (barrier.length <= LONGEST_BARRIER) return { ...finish, barrier };
    // The server's current version is after all of these writes, and is one line.
    const later = await this.#barrierOfNow().catch(() => undefined);
    return { ...finish, barrier: later ?? barrier };
  }

  /** Logs a failure that a function or its declaration can cause with each run. */
  #warn(fields: LogFields, message: string): void {
    const { bounds, controller, runtime } = this.#options;
    const admitted = bounds.admitLine();
    if (admitted) runtime.logger.warn({ controller, ...fields, ...admitted }, message);
  }

  #log(run: Run, outcome: Outcome, finish: Finish, trigger: { id: string; durationMs: number }): void {
    const { bounds, controller, runtime, settings } = this.#options;
    const failed = !['accepted', 'deferred', 'done', 'not-sent'].includes(outcome.kind);
    const admitted = failed ? bounds.admitLine() : undefined;
    runtime.logger[admitted ? 'warn' : settings.logTriggers && !failed ? 'info' : 'debug'](
      {
        controller,
        key: run.key,
        run: run.run,
        reconcileID: trigger.id,
        attempt: run.failures + 1,
        reasons: run.reasons,
        outcome: outcome.kind,
        ...('reason' in outcome ? { reason: outcome.reason } : {}),
        ...('message' in outcome ? { error: outcome.message } : {}),
        ...('withinMs' in outcome ? { withinMs: outcome.withinMs } : {}),
        ...(finish.kind === 'ended' && finish.againAfterMs !== undefined ? { againAfterMs: finish.againAfterMs } : {}),
        writes: writesOf(outcome).length,
        durationMs: trigger.durationMs,
        ...admitted,
      },
      outcome.kind === 'not-sent' ? 'the function is starting, no trigger was sent' : 'trigger',
    );
  }
}

const BEHIND: Finish = { kind: 'ended', failures: 'keep', againAfterMs: 250, elsewhere: true };
const ASK_EVERY_MS = 1000;
/** For `ControllerBounds.admitLine`: failing keys do not fill the log. */
export const FAILURE_LINES = { perSecond: 5, burst: 200 };
/** Below every version of a server. */
const BEFORE_ALL = '1';
const WRITES_IN_HISTORY = 5;

/** The counter that controller-runtime increments in addition. Undefined: none. */
function errorCounterOf(outcome: Outcome): CounterName | undefined {
  if (outcome.kind === 'terminal') return 'controller_runtime_terminal_reconcile_errors_total';
  if (outcome.kind !== 'unknown') return undefined;
  switch (outcome.reason) {
    case 'timeout':
      return 'controller_runtime_reconcile_timeouts_total';
    case 'connection':
    case 'status':
    case 'too-large':
    case 'body':
      // A reconciler that panics in a function of Go breaks the connection; other platforms answer 500 for it.
      return 'controller_runtime_reconcile_panics_total';
    case 'gone':
    case 'write':
      // The function has reported it itself.
      return undefined;
  }
}

function startingOf(absence: string): Outcome {
  return { kind: 'not-sent', message: `the function may be starting: ${absence}`, isThere: false };
}

/** Stands in for a missing outcome, which cannot be: there are as many outcomes as runs. */
const NO_OUTCOME: Outcome = { kind: 'unknown', reason: 'body', message: 'the answer has no result for this request' };

/** Adds the error and the writes, for the history. */
function withSummary(finish: Finish, outcome: Outcome): Finish {
  if (finish.kind === 'accepted') return finish;
  const withError = 'message' in outcome ? { ...finish, error: outcome.message } : finish;
  const writes = writesOf(outcome);
  return withError.kind === 'ended' && writes.length > 0 ? { ...withError, wrote: wroteOf(writes) } : withError;
}

function wroteOf(writes: readonly Write[]): WriteSummary {
  const first = writes.slice(0, WRITES_IN_HISTORY).map((write): ShownWrite => {
    const object = `${formatKind(write)} ${formatObjectKey(write)}`;
    const { resourceVersion, deleted } = write;
    if (deleted) return { object, deleted };
    return resourceVersion === undefined ? { object } : { object, resourceVersion };
  });
  return { count: writes.length, first };
}

function writesOf(outcome: Outcome): readonly Write[] {
  return 'writes' in outcome ? outcome.writes : [];
}
