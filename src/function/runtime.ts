import { formatObjectKey, type Logger, messageOf, systemClock } from '../core/index.ts';
import type { RequestResult, Trigger, TriggerRequest } from '../contract/index.ts';
import type { ApiTransport } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import type { CacheReader } from './cache-reader.ts';
import { isCached } from './cache-views.ts';
import type { Controller } from './controller.ts';
import { RetryAfterError, TerminalError } from './errors.ts';
import type { RunToken } from './run-token.ts';

export interface RunOptions {
  readonly cache: (signal: AbortSignal) => CacheReader;
  readonly api: ApiTransport;
  readonly log: Logger;
  /** Of the trigger, and on every line of the log: the gateway's lines carry the same. */
  readonly reconcileId: string;
  /** Aborted when the caller hangs up. */
  readonly hangUp: AbortSignal;
  /** What the deadline of a trigger is compared with when it arrives. */
  readonly wallNow: () => number;
}

/** Runs the requests of one trigger, all at the same time, until its deadline. One result each; never rejects. */
export async function runTrigger(
  controller: Controller,
  trigger: Trigger,
  options: RunOptions,
): Promise<RequestResult[]> {
  // The earlier of the two: this machine's clock and the gateway's may differ. From here on it is a duration, on a
  // clock that nothing sets: no write leaves after it, whatever becomes of the machine's clock.
  const remainingMs = Math.min(Date.parse(trigger.deadline) - options.wallNow(), trigger.remainingSeconds * 1000);
  const now = systemClock.now();
  const triggerMs = now + remainingMs;
  const isBatch = trigger.requests.length > 1;
  // A run that does not end must not take the others' results with it: the answer leaves before the deadline.
  const deadlineMs = isBatch ? triggerMs - Math.min(ANSWER_MS, (triggerMs - now) / 10) : triggerMs;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(new Error('the deadline has passed')), Math.max(0, deadlineMs - now));
  const signal = AbortSignal.any([deadline.signal, options.hangUp]);
  try {
    const given = { ...options, cache: options.cache(signal), signal, deadlineMs };
    const runs = trigger.requests.map((request) => runRequest(controller, trigger, request, given));
    return await Promise.all(isBatch ? runs.map((run) => Promise.race([run, cutOff(signal)])) : runs);
  } finally {
    clearTimeout(timer);
  }
}

/** The time before the deadline in which a batch is answered, or a tenth of the time if that is less. */
const ANSWER_MS = 500;

/** The run may still be doing things that cannot be stopped; it sends no write any more. */
function cutOff(signal: AbortSignal): Promise<RequestResult> {
  return new Promise((resolve) => {
    const over = (): void => resolve({ status: 'unknown', message: 'the run did not end before the deadline' });
    if (signal.aborted) return over();
    signal.addEventListener('abort', over, { once: true });
  });
}

async function runRequest(
  controller: Controller,
  { cache: location, callback }: Trigger,
  request: TriggerRequest,
  options: Omit<RunOptions, 'cache'> & { cache: CacheReader; signal: AbortSignal; deadlineMs: number },
): Promise<RequestResult> {
  const { signal, deadlineMs } = options;
  const api = new ApiWriter(options.api, { signal, deadlineMs });
  const { namespace, name, run } = request;
  const key = namespace === undefined ? { name } : { namespace, name };
  const runToken = callback && { ...callback, controller: controller.name, ...key, run };
  const result = await resultOf(controller, request, api, runToken, options);
  await api.finish();
  // A write of a kind that is not cached, such as an Event, does not make the outcome unknown: the next run does not
  // read it from the cache.
  const doubt = api.unanswered.find((write) => isCached(location, write));
  return doubt ? { status: 'unknown', message: doubt.message } : result;
}

async function resultOf(
  controller: Controller,
  request: TriggerRequest,
  api: ApiWriter,
  runToken: RunToken | undefined,
  options: Omit<RunOptions, 'cache'> & { cache: CacheReader; signal: AbortSignal },
): Promise<RequestResult> {
  const { signal } = options;
  const { reconcileId } = options;
  // controller-runtime's name for it.
  const log = options.log.child({ key: formatObjectKey(request), run: request.run, reconcileID: reconcileId });
  const { namespace, name, attempt, reasons } = request;
  const given = { ...(namespace === undefined ? {} : { namespace }), name, attempt, reasons };
  try {
    const context = { cache: options.cache, api, log, signal, reconcileId, ...(runToken ? { runToken } : {}) };
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
    // Sent as it is, it would make the whole answer unreadable, and the key would wait for its deadline.
    if (seconds !== undefined && !isDuration(seconds)) {
      throw new TerminalError(`requeueAfterSeconds is ${seconds}: it must lie between 0 and a year`);
    }
    return { status: 'done', writes: api.writes, ...(seconds === undefined ? {} : { requeueAfterSeconds: seconds }) };
  } catch (error) {
    // More than the gateway keeps; an answer of over 1 MiB would be none.
    const message = messageOf(error).slice(0, 4096);
    const status = error instanceof TerminalError ? 'terminal' : 'error';
    log.error({ error: message, ...(status === 'error' ? { stack: stackOf(error) } : {}) }, 'reconcile failed');
    const retry =
      error instanceof RetryAfterError && isDuration(error.retryAfterSeconds)
        ? { retryAfterSeconds: error.retryAfterSeconds }
        : {};
    return { status, message, writes: api.writes, ...retry };
  }
}

/** The gateway's bound. */
const MAX_SECONDS = 365 * 86_400;

function isDuration(seconds: number): boolean {
  return seconds >= 0 && seconds <= MAX_SECONDS;
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined;
}
