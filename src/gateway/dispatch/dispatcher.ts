import { randomUUID } from 'node:crypto';
import {
  type Clock,
  formatKind,
  type Logger,
  type Metrics,
  parseObjectKey,
  type ResourceVersion,
} from '../../core/index.ts';
import { CONTRACT_VERSION, type Trigger, type Write } from '../../contract/index.ts';
import type { View } from '../cache/view.ts';
import type { Finish, Process, Run } from '../workqueue/work-queue.ts';
import { Barriers } from './barrier.ts';
import type { Endpoint } from './endpoint.ts';
import { decodeOutcome, type Outcome } from './outcome.ts';
import { decide, decideLost } from './requeue-policy.ts';

/** A view that the dispatcher's controller reads, and what can be asked of the apiserver about it. */
export interface DispatchView {
  readonly view: View;
  /** The resource's version at the apiserver, read consistently. */
  readonly currentVersion: () => Promise<ResourceVersion>;
  /** Make the view's version move soon. */
  readonly requestProgress: () => void;
}

export interface DispatcherOptions {
  readonly controller: string;
  readonly endpoint: Endpoint;
  readonly views: readonly DispatchView[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Logs each trigger at info rather than debug. */
  readonly logTriggers: boolean;
}

/** Runs the keys of one controller: one signed trigger for each run, its outcome decoded and decided upon. */
export class Dispatcher implements Process {
  readonly #options: DispatcherOptions;
  readonly #barriers: Barriers;
  readonly #cache: Trigger['cache'];

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const views = options.views.map(({ view }) => view);
    this.#barriers = new Barriers(views);
    this.#cache = { views: locationsOf(views) };
  }

  async run(run: Run): Promise<Finish> {
    const { clock, endpoint, metrics, controller } = this.#options;
    const startedAt = clock.now();
    const timeoutMs = run.deadlineMs - startedAt;
    const answer = await endpoint.send({
      method: 'POST',
      body: JSON.stringify(this.#trigger(run, timeoutMs)),
      id: randomUUID(),
      timeoutMs,
    });
    const outcome = decodeOutcome(answer);
    const { finish, result } = decide(outcome, run.failures);
    const durationMs = clock.now() - startedAt;
    metrics.observe('controller_runtime_reconcile_time_seconds', { controller }, durationMs / 1000);
    metrics.count('controller_runtime_reconcile_total', { controller, result });
    if (result === 'error') metrics.count('controller_runtime_reconcile_errors_total', { controller });
    metrics.count('levelhook_triggers_total', { controller, outcome: outcome.kind });
    this.#log(run, outcome, finish, durationMs);
    const told = finish.kind === 'known' && 'message' in outcome ? { ...finish, error: outcome.message } : finish;
    return this.#withBarrier(told, writesOf(outcome));
  }

  async lost(run: { key: string; run: number; failures: number }): Promise<Finish & { readonly kind: 'known' }> {
    const { controller, logger, views } = this.#options;
    const versions = await Promise.all(
      views.map(async ({ view, currentVersion }) => [view, await currentVersion()] as const),
    );
    const barrier = await this.#barriers.afterLost(new Map(versions));
    const finish = decideLost(run.failures);
    const { againAfterMs } = finish;
    logger.warn({ controller, ...run, againAfterMs }, 'the deadline of a run has passed without an outcome');
    return { ...finish, ...(barrier === undefined ? {} : { barrier }) };
  }

  passed(barrier: string): Promise<boolean> {
    return this.#barriers.passed(barrier);
  }

  late(barrier: string): void {
    const waitedFor = new Set(this.#barriers.viewsOf(barrier));
    for (const { view, requestProgress } of this.#options.views) if (waitedFor.has(view)) requestProgress();
  }

  #trigger(run: Run, remainingMs: number): Trigger {
    return {
      version: CONTRACT_VERSION,
      controller: this.#options.controller,
      deadline: new Date(run.deadlineMs).toISOString(),
      remainingSeconds: remainingMs / 1000,
      cache: this.#cache,
      requests: [{ ...parseObjectKey(run.key), attempt: run.failures + 1, run: run.run, reasons: run.reasons }],
    };
  }

  async #withBarrier(finish: Finish, writes: readonly Write[]): Promise<Finish> {
    if (finish.kind !== 'known' || writes.length === 0) return finish;
    const barrier = await this.#barriers.afterWrites(writes);
    return barrier === undefined ? finish : { ...finish, barrier };
  }

  #log(run: Run, outcome: Outcome, finish: Finish, durationMs: number): void {
    const { controller, logger, logTriggers } = this.#options;
    const failed = outcome.kind !== 'done' && outcome.kind !== 'deferred';
    logger[failed ? 'warn' : logTriggers ? 'info' : 'debug'](
      {
        controller,
        key: run.key,
        run: run.run,
        attempt: run.failures + 1,
        reasons: run.reasons,
        outcome: outcome.kind,
        ...('message' in outcome ? { error: outcome.message } : {}),
        ...(finish.kind === 'known' && finish.againAfterMs !== undefined ? { againAfterMs: finish.againAfterMs } : {}),
        writes: writesOf(outcome).length,
        durationMs,
      },
      'trigger',
    );
  }
}

function locationsOf(views: readonly View[]): Trigger['cache']['views'] {
  const kinds = Map.groupBy(views, (view) => formatKind(view.resource));
  return Object.fromEntries([...kinds].map(([kind, each]) => [kind, each.map(({ location }) => location)]));
}

function writesOf(outcome: Outcome): readonly Write[] {
  return 'writes' in outcome ? outcome.writes : [];
}
