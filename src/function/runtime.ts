import { formatObjectKey, type Logger, messageOf, systemClock, traceFields } from '../core/index.ts';
import type { CacheLocation, RelatedRule, RequestResult, Trigger, TriggerRequest, Write } from '../contract/index.ts';
import type { ApiTransport } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import type { CacheReader } from './cache-reader.ts';
import { isCached, isEncryptedKind } from './cache-views.ts';
import type { Context, Controller } from './controller.ts';
import { declaredWrites } from './describe.ts';
import { RetryAfterError, TerminalError } from './errors.ts';
import { type ReportedLogs, RunLog, stackOf } from './run-log.ts';
import { type HangUp, RunScope } from './run-scope.ts';
import { RunSteps } from './run-steps.ts';
import type { RunCredentials, RunToken } from './run-token.ts';
import { describeRelated } from './source.ts';

export interface RunOptions {
  /** Opens the cache. The getter of `run.signal` creates the signal, so read it only when you need it. */
  readonly cache: (run: { readonly signal: AbortSignal }) => CacheReader;
  /** Reaches the apiserver for one run. */
  readonly api: (run: number) => ApiTransport;
  readonly log: Logger;
  readonly logs: ReportedLogs;
  /** Identifies the trigger on every line of the log, as in the gateway's. */
  readonly reconcileId: string;
  /** The header of the trigger. Undefined: its trace is not recorded. */
  readonly traceparent?: string | undefined;
  readonly hangUp: HangUp;
  /** The clock that checks the deadline of an arriving trigger. */
  readonly wallNow: () => number;
}

/** Called with the result of the request at index `at` of the trigger. */
export type OnResult = (result: RequestResult, at: number) => void;

/** Starts the runs and returns. Calls `onResult` later, once for each request. */
export type StartRuns = (onResult: OnResult) => void;

/** Starts the runs and collects all results, in the order of the requests. */
export function allResults({ requests }: Trigger, start: StartRuns): Promise<RequestResult[]> {
  return new Promise((resolve) => {
    const results: RequestResult[] = [];
    let left = requests.length;
    start((result, at) => {
      results[at] = result;
      left -= 1;
      if (left === 0) resolve(results);
    });
  });
}

/**
 * Prepares the runs of one trigger, which run at the same time until its deadline. The time of the trigger counts from
 * this call.
 */
export function prepareTrigger(controller: Controller, trigger: Trigger, options: RunOptions): StartRuns {
  // The earlier of the two, because this machine's clock and the gateway's may differ. From here on it is a duration on
  // a clock that nothing sets, so no write leaves after the deadline even if the machine's clock is changed.
  const remainingMs = Math.min(Date.parse(trigger.deadline) - options.wallNow(), trigger.remainingSeconds * 1000);
  const { requests } = trigger;
  const isBatch = requests.length > 1;
  // A batch is answered before the deadline, so that a run that does not end does not delay the results of the others.
  const runMs = isBatch ? remainingMs - Math.min(ANSWER_MS, remainingMs / 10) : remainingMs;
  const scope = new RunScope(systemClock.now() + runMs, options.hangUp);
  const given = { ...options, cache: options.cache(scope), scope };
  return (onResult) => {
    const open = new Set(requests.keys());
    const settle: OnResult = (result, at) => {
      if (!open.delete(at)) return;
      if (open.size === 0) scope.close();
      onResult(result, at);
    };
    for (const [at, request] of requests.entries()) {
      void runRequest(controller, trigger, request, given).then((result) => settle(result, at));
    }
    // The code of a run cannot be stopped, but the run can send no more writes.
    const cutOff = (): void => [...open].forEach((at) => settle(CUT_OFF, at));
    if (isBatch) scope.onOver(() => queueMicrotask(cutOff));
  };
}

/** A batch is answered this long before the deadline, or a tenth of the time if that is less. */
const ANSWER_MS = 500;

const CUT_OFF: RequestResult = { status: 'unknown', message: 'the run did not end before the deadline' };

interface GivenRun extends Omit<RunOptions, 'cache'> {
  readonly cache: CacheReader;
  readonly scope: RunScope;
  /** Undefined: its result has no lines. */
  readonly runLog?: RunLog | undefined;
}

async function runRequest(
  controller: Controller,
  { cache: location, callback, kubernetes }: Trigger,
  request: TriggerRequest,
  options: GivenRun,
): Promise<RequestResult> {
  const { namespace, name, run } = request;
  const within = controller.writesAcrossNamespaces ? undefined : namespace;
  const writes = declaredWrites(controller);
  const startedMs = systemClock.now();
  const { lines: most } = options.logs;
  const runLog = most > 0 ? new RunLog(most, startedMs, options.logs.isBusy(startedMs)) : undefined;
  const steps = runLog && new RunSteps(runLog, options.logs.seen, (kind) => isEncryptedKind(location, kind));
  const transport = traced(options.api(run), options.traceparent);
  const api = new ApiWriter(steps?.transport(transport) ?? transport, options.scope, { namespace: within, writes });
  const key = namespace === undefined ? { name } : { namespace, name };
  const runToken = callback && {
    ...callback,
    controller: controller.name,
    ...key,
    run,
    ...(within && { writesTo: within }),
    ...(writes && { writes }),
  };
  const runCredentials = kubernetes && { ...kubernetes, run };
  const cache = steps?.cache(options.cache) ?? options.cache;
  const result = await resultOf(controller, request, api, { runToken, runCredentials }, { ...options, cache, runLog });
  await api.finish();
  // The gateway forwarded all writes, and knows whether each has an answer.
  if (kubernetes?.recordsWrites) return 'writes' in result ? { ...result, writes: [] } : result;
  // A write of a kind that is not cached, such as an Event, does not make the outcome unknown: the next run does not
  // read it from the cache.
  const doubt = api.unanswered.find((write) => isCached(location, write));
  if (doubt) return { status: 'unknown', message: doubt.message };
  return 'writes' in result ? { ...result, writes: reported(result.writes, location) } : result;
}

function traced(transport: ApiTransport, traceparent: string | undefined): ApiTransport {
  return traceparent === undefined ? transport : (request) => transport({ ...request, traceparent });
}

/** At most this many writes to kinds that are not cached are reported, for the history of the key. */
const UNCACHED_WRITES = 100;

/**
 * Limits the reported writes, because a deleteCollection of thousands of objects would make the answer too large. The
 * key's next run waits for writes to cached kinds alone, so all of these are reported.
 */
function reported(writes: readonly Write[], location: CacheLocation): readonly Write[] {
  if (writes.length <= UNCACHED_WRITES) return writes;
  let others = 0;
  return writes.filter((write) => isCached(location, write) || (others += 1) <= UNCACHED_WRITES);
}

async function resultOf(
  controller: Controller,
  request: TriggerRequest,
  api: ApiWriter,
  { runToken, runCredentials }: { runToken: RunToken | undefined; runCredentials: RunCredentials | undefined },
  { cache, scope, reconcileId, traceparent, logs, runLog, ...options }: GivenRun,
): Promise<RequestResult> {
  const { namespace, name, attempt, reasons } = request;
  const given = namespace === undefined ? { name, attempt, reasons } : { namespace, name, attempt, reasons };
  let log: Logger | undefined;
  // `reconcileID` is controller-runtime's name for it.
  const logOf = (): Logger =>
    (log ??= options.log.child({
      key: formatObjectKey(request),
      run: request.run,
      reconcileID: reconcileId,
      ...traceFields(traceparent),
    }));
  let kept: Logger | undefined;
  let related: readonly RelatedRule[] | undefined;
  // Getters, because most runs use neither the log nor the signal.
  const context: Context = {
    cache,
    api,
    get log() {
      return (kept ??= runLog?.around(logOf()) ?? logOf());
    },
    get signal() {
      return scope.signal;
    },
    related(sources) {
      related = describeRelated(sources);
    },
    reconcileId,
    ...(runToken ? { runToken } : {}),
    ...(runCredentials ? { runCredentials } : {}),
  };
  // Called after the run, which may set `related` until its end.
  const told = (hasFailed: boolean) => ({
    writes: api.writes,
    ...(related && { related }),
    ...(runLog && !runLog.isEmpty && (hasFailed || logs.takesSuccess()) && { log: runLog.lines }),
  });
  try {
    const result = await controller.run(given, context);
    const within = result?.completesWithinSeconds;
    if (within !== undefined) {
      const most = runToken?.maxSeconds ?? 0;
      if (within >= 1 && within <= most) return { status: 'accepted', withinSeconds: within };
      throw new TerminalError(
        `completesWithinSeconds is ${within}: ${most ? `it must lie between 1 and ${most}` : 'there is no run token'}`,
      );
    }
    const seconds = result?.requeueAfterSeconds;
    // The gateway could not read the whole answer with such a value, and the key would wait for its deadline.
    if (seconds !== undefined && !isDuration(seconds)) {
      throw new TerminalError(`requeueAfterSeconds is ${seconds}: it must lie between 0 and a year`);
    }
    return { status: 'done', ...told(false), ...(seconds === undefined ? {} : { requeueAfterSeconds: seconds }) };
  } catch (error) {
    // The gateway keeps less than this, and refuses an answer of over 1 MiB.
    const message = messageOf(error).slice(0, 4096);
    const status = error instanceof TerminalError ? 'terminal' : 'error';
    const stack = stackOf(error);
    logOf().error({ error: message, ...(status === 'error' ? { stack } : {}) }, 'reconcile failed');
    const retry =
      error instanceof RetryAfterError && isDuration(error.retryAfterSeconds)
        ? { retryAfterSeconds: error.retryAfterSeconds }
        : {};
    return { status, message, ...told(true), ...(logs.lines > 0 && stack !== undefined && { stack }), ...retry };
  }
}

/** The gateway's limit. */
const MAX_SECONDS = 365 * 86_400;

function isDuration(seconds: number): boolean {
  return seconds >= 0 && seconds <= MAX_SECONDS;
}
