import { randomUUID } from 'node:crypto';
import { type Logger, type ObjectKey, type Resource, silentLogger, systemClock } from '../../core/index.ts';
import { CONTRACT_VERSION, type Reason, type RequestResult, type Trigger } from '../../contract/index.ts';
import type { CacheReader } from '../../function/cache-reader.ts';
import type { Controller } from '../../function/controller.ts';
import { hangUpOf } from '../../function/run-scope.ts';
import { ReportedLogs } from '../../function/run-log.ts';
import { allResults, prepareTrigger } from '../../function/runtime.ts';
import type { RecordedRequest, TestApiserver } from './test-apiserver.ts';
import { everythingOf } from './live-reader.ts';
import { liveCache } from './test-context.ts';

export interface RunReconcilerOptions {
  /** The reconciler writes here, and reads it as its cache. */
  readonly apiserver: TestApiserver;
  /** A different cache, for instance with an older state. Default: the current state of the apiserver. */
  readonly cache?: CacheReader;
  /** 1, the default, is the first run since the key last succeeded. */
  readonly attempt?: number;
  /** Default: none. */
  readonly reasons?: readonly Reason[];
  /** Default: the controller's own `timeoutSeconds`, or 15. */
  readonly timeoutSeconds?: number;
  /** Aborted as if the gateway had hung up. Default: never. */
  readonly signal?: AbortSignal;
  /**
   * For how many seconds the values of observed fields are unchanged: by field, and for items by the field and the
   * values that identify them: `spec.taints{key,value} ["a",""]`. Default: 0 for each.
   */
  readonly secondsUnchanged?: Readonly<Record<string, number>>;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** One run, and its result. */
export interface ReconcilerRun {
  /**
   * The outcome for the gateway: `{ status: 'done', requeueAfterSeconds, writes }`, an error to retry, a terminal
   * error, or unknown.
   */
  readonly outcome: RequestResult;
  /** The error that the reconciler threw; undefined if it threw none. */
  readonly error: unknown;
  /** The requests of this run that change objects, in their order, including refused ones. */
  readonly writes: readonly RecordedRequest[];
}

/**
 * Runs a controller's reconciler once for one key, through the same runtime as in production, but without a gateway: no
 * signature, no queue, no cache. A controller with `callbackSeconds` gets a run token, for which nobody takes an
 * outcome. An error in the reconciler does not reject: see `error`.
 *
 * ```ts
 * const apiserver = new MemoryApiserver({ objects: [source] });
 * const { outcome, writes } = await runReconciler(greeting, { namespace: 'a', name: 'ann' }, { apiserver });
 * expect(outcome.status).toBe('done');
 * expect(writes).toMatchObject([{ verb: 'create', resource: 'configmaps', name: 'ann-greeting' }]);
 * ```
 */
export async function runReconciler(
  controller: Controller,
  key: ObjectKey,
  options: RunReconcilerOptions,
): Promise<ReconcilerRun> {
  const { apiserver, attempt = 1, reasons = [], logger = silentLogger } = options;
  const { timeoutSeconds = controller.timeoutSeconds ?? 15, signal } = options;
  const { namespace, name } = key;
  const before = apiserver.requests.length;
  let thrown: unknown;
  const observed: Controller = {
    ...controller,
    async run(request, context) {
      try {
        return await controller.run(request, context);
      } catch (error) {
        thrown = error;
        throw error;
      }
    },
  };
  const { callbackSeconds } = controller;
  const resources = declaredBy(controller);
  const deadlineMs = systemClock.now() + timeoutSeconds * 1000;
  const trigger: Trigger = {
    version: CONTRACT_VERSION,
    controller: controller.name,
    deadline: new Date(systemClock.wallNow() + timeoutSeconds * 1000).toISOString(),
    remainingSeconds: timeoutSeconds,
    cache: everythingOf(resources),
    ...(callbackSeconds === undefined
      ? {}
      : { callback: { url: NO_GATEWAY, token: randomUUID(), maxSeconds: callbackSeconds } }),
    requests: [{ ...(namespace === undefined ? {} : { namespace }), name, attempt, run: 1, reasons }],
  };
  const start = prepareTrigger(observed, trigger, {
    cache: (run) =>
      options.cache ?? liveCache(apiserver, resources, { signal: run.signal, deadlineMs }, options.secondsUnchanged),
    api: () => apiserver.transport,
    log: logger,
    // The caller has the logger and the error itself.
    logs: new ReportedLogs(0),
    reconcileId: randomUUID(),
    hangUp: signal ? hangUpOf(signal) : () => {},
    wallNow: () => systemClock.wallNow(),
  });
  const [outcome] = await allResults(trigger, start);
  if (!outcome) throw new Error('the runtime gave no result');
  const writes = apiserver.requests.slice(before).filter(({ verb }) => verb !== 'get' && verb !== 'list');
  // A copy, because work that the run has left behind may still change the original.
  return { outcome: structuredClone(outcome), error: thrown, writes };
}

/** Nothing answers there. */
const NO_GATEWAY = 'http://callbacks.invalid/';

/** The kinds of the controller's cache. */
export function declaredBy({ for: own, owns = [], watches = [], reads = [] }: Controller): Resource[] {
  return [own, ...owns, ...watches, ...reads].map((source) => ('resource' in source ? source.resource : source));
}
