import { randomUUID } from 'node:crypto';
import {
  type AdmittedLine,
  formatKind,
  messageOf,
  parseObjectKey,
  type RequestSource,
  type Runtime,
  tenantOf,
  TenantTurns,
} from '../../../core/index.ts';
import {
  type CallbackLocation,
  CONTRACT_VERSION,
  type KubernetesLocation,
  type RequestResult,
  type Trigger,
  type Write,
} from '../../../contract/index.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { Finish, Process, Run, WriteSummary } from '../workqueue/work-queue.ts';
import type { CacheAccess } from '../access/cache-access.ts';
import type { KubernetesAccess } from '../access/kubernetes-credentials.ts';
import type { RecordedWrites } from './recorded-writes.ts';
import { noSource, type RelatedObjects } from './related-objects.ts';
import { type DispatchView, RunBarriers } from './run-barriers.ts';
import { RunReport, type SentOnce } from './run-report.ts';
import { tracedRun, withSummary, writesOf, wroteOf } from './run-summary.ts';
import { ColdStart } from '../endpoint/cold-start.ts';
import type { Answer, Endpoint } from '../endpoint/endpoint.ts';
import { EndpointCircuitBreaker, type KeyStarts } from '../endpoint/endpoint-circuit-breaker.ts';
import type { OpenCircuit } from '../endpoint/open-circuit.ts';
import type { Hold } from '../endpoint/held-bytes.ts';
import { decodeLine, fromResult, type Outcome, outcomeDecoders, type SentTrigger } from '../endpoint/outcome.ts';
import { decide, decideLost, NOT_SENT } from './requeue-policy.ts';

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
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics' | 'traces'>;
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
  /** Whether Redis has no memory for more of its keys now. Default: it has. */
  readonly isLeftOut?: () => boolean;
  /** For the bytes of one answer of its function, or of one callback. */
  readonly openHold: () => Hold;
  /**
   * Whether a line that the function can cause may be logged: about a failed run, a late barrier or the circuit
   * breaker, or about a callback. Lines about callbacks have a limit of their own, because runs that do well cause
   * them.
   */
  readonly admitLine: (about?: 'callbacks') => AdmittedLine | undefined;
}

export interface DispatcherSettings {
  /** Logs each trigger at info rather than debug. */
  readonly logTriggers: boolean;
  /** See `ColdStart`. */
  readonly startWindowMs: number;
}

/**
 * Runs the keys of one controller by signed triggers, one run in each or a batch; each outcome is decoded and decided
 * upon.
 */
export class Dispatcher implements Process {
  readonly #options: DispatcherOptions;
  readonly #barriers: RunBarriers;
  readonly #report: RunReport;
  readonly #circuitBreaker: EndpointCircuitBreaker;
  readonly #coldStart: ColdStart;
  /** For reading the answers of the function. */
  readonly #charge = (ms: number): unknown => this.#options.bounds.budget.charge(ms);

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const { bounds, controller, runtime, settings, starts, target, views } = options;
    const { endpoint } = target;
    const { admitLine, budget, isLeftOut = () => false } = bounds;
    const { logTriggers } = settings;
    this.#barriers = new RunBarriers({ controller, views, budget, isLeftOut, admitLine, runtime });
    this.#report = new RunReport({ controller, runtime, logTriggers, admitLine });
    this.#circuitBreaker = new EndpointCircuitBreaker({ controller, ...starts, admitLine, runtime });
    this.#coldStart = new ColdStart({ endpoint, clock: runtime.clock, windowMs: settings.startWindowMs });
  }

  /** Undefined while triggers are sent freely. */
  get circuit(): OpenCircuit | undefined {
    return this.#circuitBreaker.circuit;
  }

  run(runs: readonly Run[]): readonly Promise<Finish>[] {
    const finishes = runs.map(() => Promise.withResolvers<Finish>());
    this.#send(runs, (at, finish) => finishes[at]?.resolve(finish)).catch((error: unknown) => {
      // The trigger may have been sent.
      for (const { resolve } of finishes) resolve({ kind: 'unknown', error: messageOf(error) });
    });
    return finishes.map(({ promise }) => promise);
  }

  /** Sends one trigger for all runs. Calls `onFinish` once for each run, when its result has arrived. */
  async #send(runs: readonly Run[], onFinish: (at: number, finish: Finish | Promise<Finish>) => void): Promise<void> {
    const { clock, traces } = this.#options.runtime;
    const { cacheAccess, callback: later, kubernetes: access, related } = this.#options.target;
    // The positions are read first: if the connection to Redis breaks during the read, nothing may be sent.
    const cache = await cacheAccess.location(runs).catch(() => undefined);
    if (!cache || (await related?.isBehind().catch(() => true))) {
      // No trigger was sent, because Redis did not answer or a related kind is missing here. Both pass within seconds,
      // and another gateway may be ready now.
      runs.forEach((_, at) => onFinish(at, BEHIND));
      return;
    }
    let cacheAgeMs: number | undefined;
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
    const traceparent = traces?.traceparent(id);
    const refused = runs.map(() => this.#circuitBreaker.refuses());
    if (refused.some((isRefused) => isRefused)) {
      // These runs had started before a circuit opened. Another gateway may send a trigger now.
      refused.forEach((_, at) => onFinish(at, NOT_SENT));
      return;
    }
    const outcomes: (Outcome | undefined)[] = runs.map(() => undefined);
    const writes: (readonly Write[])[] = [];
    const finishes: Promise<Finish>[] = [];
    const record = (at: number, outcome: Outcome): void => {
      const run = runs[at];
      // The first outcome of a run counts.
      if (!run || outcomes[at]) return;
      outcomes[at] = outcome;
      const trigger = { id, traceparent, cacheAgeMs, durationMs: clock.now() - startedAt };
      const finish = this.#finish(run, outcome, trigger, (all) => (writes[at] = all));
      if (traceparent !== undefined) finishes.push(finish);
      onFinish(at, finish);
    };
    const { budget, openHold } = this.#options.bounds;
    const onLine = async (text: string): Promise<void> => {
      const line = await budget.inTurn(() => decodeLine(text, callback));
      const at = line ? runs.findIndex(({ run }) => run === line.run) : -1;
      if (line && at >= 0) record(at, line.outcome);
      else this.#report.ignoredLine();
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
      cacheAgeMs = cacheAccess.ageMs;
      try {
        const reading = { onLine: streamed, hold, charge: this.#charge };
        const answer = await this.#coldStart.send({ body, id, timeoutMs, traceparent, ...reading });
        const sent = { requests: runs.length, callback };
        const isLarge = answer.kind === 'answered' && answer.body.length > LARGE_CHARACTERS;
        if (isLarge) {
          await budget.inTurn(() => {});
          await PARSED.run(tenantOf(this.#options.controller), async () => {
            const decoders = await budget.inTurn(() => this.#decodersOf(answer, sent));
            const slice = new TimeSlice();
            for (const at of runs.keys()) {
              const decode = decoders[at];
              record(at, decode ? await budget.inTurn(decode) : NO_OUTCOME);
              if (slice.isOver) await slice.giveWay();
            }
          });
        } else {
          const decoded = await budget.inTurn(() => this.#decodersOf(answer, sent).map((decode) => decode()));
          for (const at of runs.keys()) record(at, decoded[at] ?? NO_OUTCOME);
        }
        return outcomes.map((outcome) => outcome ?? NO_OUTCOME);
      } finally {
        hold.release();
      }
    });
    if (traceparent === undefined) return;
    const { controller } = this.#options;
    const answeredMs = clock.wallNow();
    const sentMs = answeredMs - (clock.now() - startedAt);
    // Writes through the gateway are known when the run is recorded as ended.
    await Promise.allSettled(finishes);
    const traced = runs.map((run, at) => {
      const outcome = outcomes[at];
      return tracedRun(run, outcome && { outcome, writes: writes[at] ?? [] });
    });
    traces?.record({ id, controller, sentMs, answeredMs, runs: traced });
  }

  /** The credentials for a trigger of these runs. On an error nothing is sent, and the runs have failed. */
  async #kubernetes(access: KubernetesAccess, runs: readonly Run[]): Promise<KubernetesLocation | Error> {
    try {
      return await access.location(runs);
    } catch (error) {
      const reason = `there are no credentials for the function: ${messageOf(error)}`;
      this.#report.warn({ error: reason }, 'a trigger could not be sent');
      this.#report.result('error');
      return new Error(reason);
    }
  }

  /** The outcome of runs whose trigger must not be sent now; undefined: it may be sent. */
  async #notSent(timeoutMs: number): Promise<Outcome | undefined> {
    const { clock } = this.#options.runtime;
    const askedAt = clock.now();
    const hold = this.#options.bounds.openHold();
    const absence = await this.#coldStart.absence(timeoutMs, this.#charge, hold).finally(() => hold.release());
    if (absence !== undefined) return startingOf(absence);
    // The start of the function has used up the time of this run: it gets another run, with its whole time.
    if (clock.now() - askedAt <= timeoutMs / 10) return undefined;
    return { kind: 'not-sent', message: 'the function has just started', isThere: true };
  }

  #decodersOf(answer: Answer, sent: SentTrigger): readonly (() => Outcome)[] {
    const decoders = outcomeDecoders(answer, sent, this.#options.runtime.clock.wallNow());
    if (answer.kind !== 'refused' || !this.#coldStart.isStarting) return decoders;
    return decoders.map(() => () => startingOf(answer.message));
  }

  /** @param onWrites gets the writes of the run, as far as they are known. */
  async #finish(
    run: Run,
    decoded: Outcome,
    trigger: SentOnce,
    onWrites: (writes: readonly Write[]) => void,
  ): Promise<Finish> {
    const outcome = await this.#withRelatedRecorded(run, decoded);
    const decision = decide(outcome, run.failures, this.#options.runtime.clock.now());
    this.#report.ended(run, outcome, decision, trigger);
    if (outcome.kind === 'not-sent') {
      this.#circuitBreaker.countNotSent('starting');
      return withSummary(decision.finish, outcome);
    }
    const { id: reconcileId, cacheAgeMs } = trigger;
    const ended = { ...withSummary(decision.finish, outcome), reconcileId, cacheAgeMs };
    const reported = writesOf(outcome);
    const { recorded } = this.#options.target;
    if (recorded && ended.kind === 'ended') return this.#withRecorded(recorded, run, ended, { reported, onWrites });
    onWrites(reported);
    return this.#withBarrier(ended, reported);
  }

  /** Ends the writes of a run: from now on the gateway passes on none. @throws when Redis does not answer */
  async #withRecorded(
    recorded: RecordedWrites,
    run: Pick<Run, 'key' | 'run' | 'deadlineMs'>,
    finish: Finish & { readonly kind: 'ended' },
    { reported, onWrites }: { readonly reported: readonly Write[]; readonly onWrites: (all: readonly Write[]) => void },
  ): Promise<Finish> {
    const { writes, isUnanswered, isUnclear } = await recorded.end(run);
    const all = [...writes, ...reported];
    onWrites(all);
    if (isUnanswered) return this.#unansweredWrite();
    const shown = all.length > 0 ? { ...finish, wrote: wroteOf(all) } : finish;
    if (!isUnclear) return this.#withBarrier(shown, all);
    // The server's current version is after all of these writes.
    const barrier = await this.#barriers.ofNow();
    return barrier === undefined ? shown : { ...shown, barrier };
  }

  /**
   * Stores the related rules of a run, before its end is recorded. Makes a run fail that names related objects which
   * could never wake its key.
   * @throws when Redis does not answer
   */
  async #withRelatedRecorded(run: Pick<Run, 'key' | 'run'>, outcome: Outcome): Promise<Outcome> {
    if (!('writes' in outcome)) return outcome;
    const { related } = this.#options.target;
    const { related: rules, writes, notes } = outcome;
    const first = rules?.[0];
    const refusal = rules && first && (related ? await related.refusal(rules) : noSource(formatKind(first)));
    const message = (await related?.record(run, refusal === undefined ? rules : undefined)) ?? refusal;
    return message === undefined ? outcome : { kind: 'error', message, writes, ...(notes && { notes }) };
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
    // The callback has had its turn when it was read.
    const decoded = this.#options.bounds.budget.run(() => fromResult(reported, callback));
    const outcome = await this.#withRelatedRecorded(run, decoded);
    const { finish, result } = decide(outcome, run.failures, clock.now());
    const { recorded } = this.#options.target;
    const isUnanswered = finish.kind === 'ended' && (await recorded?.end(run))?.isUnanswered;
    if (isUnanswered) return this.#unansweredWrite();
    const barrier = finish.kind === 'ended' ? await this.#barriers.ofNow() : undefined;
    this.#report.result(result, outcome);
    return { ...withSummary(finish, outcome), ...(barrier === undefined ? {} : { barrier }) };
  }

  async lost(run: { key: string; run: number; failures: number }): Promise<Finish & { readonly kind: 'ended' }> {
    const barrier = await this.#barriers.ofNow();
    const wrote = await this.#wroteBeforeLost(run);
    const finish = { ...decideLost(run.failures), ...(wrote ? { wrote } : {}) };
    const { againAfterMs } = finish;
    this.#report.warn({ ...run, againAfterMs }, 'the deadline of a run has passed without an outcome');
    return { ...finish, ...(barrier === undefined ? {} : { barrier }) };
  }

  #unansweredWrite(): Finish {
    this.#report.unansweredWrite();
    return { kind: 'unknown', error: 'a write of the run got no answer from the apiserver' };
  }

  /**
   * The writes on record, for people: a record that cannot be read does not keep the run from being settled. The
   * barrier covers all writes before the deadline, recorded or not.
   */
  async #wroteBeforeLost(run: { key: string; run: number }): Promise<WriteSummary | undefined> {
    const { recorded } = this.#options.target;
    const record = await recorded?.end({ ...run, deadlineMs: 0 }).catch(() => undefined);
    return record && record.writes.length > 0 ? wroteOf(record.writes) : undefined;
  }

  passed(barrier: string): Promise<boolean | undefined> {
    return this.#barriers.passed(barrier);
  }

  late(barrier: string): void {
    this.#barriers.late(barrier);
  }

  async #withBarrier(finish: Finish, writes: readonly Write[]): Promise<Finish> {
    if (finish.kind !== 'ended') return finish;
    const barrier = await this.#barriers.afterWrites(writes);
    return barrier === undefined ? finish : { ...finish, barrier };
  }

  #trigger(runs: readonly Run[], timeoutMs: number, cache: Trigger['cache']): Trigger {
    return {
      version: CONTRACT_VERSION,
      controller: this.#options.functionName ?? this.#options.controller,
      // By the wall clock, because the function compares it with its own. The gateway's deadline is on the steady
      // clock.
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
}

/** A shorter answer is decoded at once, in some milliseconds at most, so that it waits for no other. */
const LARGE_CHARACTERS = 64 * 1024;
/**
 * A parsed answer may take 28 times its text until its last result is decoded: a tenant has one large one at a time.
 */
const PARSED = new TenantTurns(Infinity, 1);

const BEHIND: Finish = { ...NOT_SENT, againAfterMs: 250, elsewhere: true };

function startingOf(absence: string): Outcome {
  return { kind: 'not-sent', message: `the function may be starting: ${absence}`, isThere: false };
}

/** Stands in for a missing outcome, which cannot be: there are as many outcomes as runs. */
const NO_OUTCOME: Outcome = { kind: 'unknown', reason: 'body', message: 'the answer has no result for this request' };
