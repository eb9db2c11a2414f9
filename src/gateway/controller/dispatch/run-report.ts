import { type AdmittedLine, type CounterName, type LogFields, type Runtime, traceFields } from '../../../core/index.ts';
import type { Outcome } from '../endpoint/outcome.ts';
import type { Finish, Run } from '../workqueue/work-queue.ts';
import type { Decision, ReconcileResult } from './requeue-policy.ts';
import { writesOf, wroteOf } from './run-summary.ts';

export interface RunReportOptions {
  readonly controller: string;
  readonly runtime: Pick<Runtime, 'logger' | 'metrics'>;
  /** Logs each trigger at info rather than debug. */
  readonly logTriggers: boolean;
  /** Whether a line about a failed run may be logged as a warning. */
  readonly admitLine: () => AdmittedLine | undefined;
}

/** One trigger, which may be for several runs. */
export interface SentOnce {
  /** In the logs of the gateway and of the function. */
  readonly id: string;
  /** Undefined: it has no trace. */
  readonly traceparent?: string | undefined;
  readonly durationMs: number;
  /** See `PastRun.cacheAgeMs`. */
  readonly cacheAgeMs?: number | undefined;
}

/** For `RunReportOptions.admitLine`: failing keys do not fill the log. */
export const FAILURE_LINES = { perSecond: 5, burst: 200 };

/** Says in metrics and logs how the runs of one controller end. */
export class RunReport {
  readonly #options: RunReportOptions;

  constructor(options: RunReportOptions) {
    this.#options = options;
  }

  /** A trigger was answered, or was not sent because the function starts. */
  ended(run: Run, outcome: Outcome, { finish, result }: Decision, trigger: SentOnce): void {
    const { controller, runtime } = this.#options;
    const { metrics } = runtime;
    if (outcome.kind !== 'not-sent') {
      metrics.observe('controller_runtime_reconcile_time_seconds', { controller }, trigger.durationMs / 1000);
      this.result(result, outcome);
      metrics.count('levelhook_triggers_total', { controller, outcome: outcome.kind });
    }
    if (outcome.kind === 'unknown') {
      metrics.count('levelhook_unknown_outcomes_total', { controller, reason: outcome.reason });
    }
    this.#log(run, outcome, finish, trigger);
  }

  /**
   * Counts a result as controller-runtime does.
   * @param outcome Default: no trigger was sent.
   */
  result(result: ReconcileResult | undefined, outcome?: Outcome): void {
    const { controller, runtime } = this.#options;
    const { metrics } = runtime;
    if (result === undefined) return;
    metrics.count('controller_runtime_reconcile_total', { controller, result });
    if (result !== 'error') return;
    metrics.count('controller_runtime_reconcile_errors_total', { controller });
    const counter = outcome && errorCounterOf(outcome);
    if (counter) metrics.count(counter, { controller });
  }

  /** A run has ended, and a write of it is still on its way to the apiserver, or was lost on it. */
  unansweredWrite(): void {
    const { controller, runtime } = this.#options;
    runtime.metrics.count('levelhook_unknown_outcomes_total', { controller, reason: 'write' });
  }

  ignoredLine(): void {
    const { controller, runtime } = this.#options;
    runtime.metrics.count('levelhook_ignored_result_lines_total', { controller });
    runtime.logger.debug({ controller }, 'a line of a streamed answer names no run of its trigger');
  }

  /** Logs a failure that a function or its declaration can cause with each run. */
  warn(fields: LogFields, message: string): void {
    const { admitLine, controller, runtime } = this.#options;
    const admitted = admitLine();
    if (admitted) runtime.logger.warn({ controller, ...fields, ...admitted }, message);
  }

  #log(run: Run, outcome: Outcome, finish: Finish, { id, traceparent, durationMs }: SentOnce): void {
    const { admitLine, controller, logTriggers, runtime } = this.#options;
    const failed = !['accepted', 'deferred', 'done', 'not-sent'].includes(outcome.kind);
    const admitted = failed ? admitLine() : undefined;
    const writes = writesOf(outcome);
    const shown = admitted !== undefined || logTriggers;
    runtime.logger[admitted ? 'warn' : logTriggers && !failed ? 'info' : 'debug'](
      {
        controller,
        key: run.key,
        run: run.run,
        reconcileID: id,
        ...traceFields(traceparent),
        attempt: run.failures + 1,
        reasons: run.reasons,
        outcome: outcome.kind,
        ...('reason' in outcome ? { reason: outcome.reason } : {}),
        ...('message' in outcome ? { error: outcome.message } : {}),
        ...('withinMs' in outcome ? { withinMs: outcome.withinMs } : {}),
        ...(finish.kind === 'ended' && finish.againAfterMs !== undefined ? { againAfterMs: finish.againAfterMs } : {}),
        writes: writes.length,
        ...(shown && writes.length > 0 ? { wrote: wroteOf(writes).first.map(({ object }) => object) } : {}),
        durationMs,
        ...admitted,
      },
      outcome.kind === 'not-sent' ? 'the function is starting, no trigger was sent' : 'trigger',
    );
  }
}

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
