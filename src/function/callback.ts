/**
 * Finishes a run after its function has answered: for a job, a queue's consumer, or the function itself. It is a
 * separate entry, since most functions finish before they answer.
 */
import { backoffMs, formatJson, messageOf, parseRetryAfter, systemClock } from '../core/index.ts';
import {
  type CallbackBody,
  CONTRACT_VERSION,
  importSecret,
  LEVELHOOK_HEADER,
  type RelatedRule,
  type RequestResult,
  sign,
} from '../contract/index.ts';
import type { ApiTransport } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import type { RunCredentials, RunToken } from './run-token.ts';
import { fetchKubernetes } from './trigger-kubernetes.ts';

export type { RunCredentials, RunToken } from './run-token.ts';

/**
 * The result of a run, and the objects that its key depends on (`Context.related`). It need not name the run's writes:
 * the key's next run sees everything from before this was sent.
 */
export type RunOutcome = { readonly related?: readonly RelatedRule[] } & (
  | { readonly status: 'done'; readonly requeueAfterSeconds?: number }
  | { readonly status: 'error'; readonly message: string; readonly retryAfterSeconds?: number }
  | { readonly status: 'terminal'; readonly message: string }
);

export interface CallbackOptions {
  /** The signing secrets of the function's triggers, or one of them. */
  readonly secrets: readonly string[];
  /** Ends the attempts. Default: after five minutes. */
  readonly signal?: AbortSignal;
  /** Default: the platform's. */
  readonly fetch?: typeof fetch;
}

/**
 * The run is no longer in flight: its outcome was already sent, or its time was up. Nothing more may be written for it.
 */
export class RunOverError extends Error {
  override readonly name = 'RunOverError';
  readonly code = 'ERR_LEVELHOOK_RUN_OVER';
}

/**
 * Writes with the credentials of a run, through `fetch`. On Node, use `nodeRunTransport` of `levelhook/function/node`,
 * which trusts the certificate authorities in the credentials, too.
 */
export function runTransport(credentials: RunCredentials): ApiTransport {
  return fetchKubernetes(credentials, credentials.run);
}

/** A run that goes on. The gateway keeps its key waiting until `deadlineMs`. */
export interface AsyncRun {
  /** Writes until `deadlineMs`, and refuses to afterwards: call `heartbeat` again in time for more. */
  readonly api: ApiWriter;
  /** Aborted at `deadlineMs`. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch, by this machine's clock at the time of the call. */
  readonly deadlineMs: number;
  /**
   * Ends the run with an outcome; `api` sends nothing after it. If a write of `api` got no answer, the outcome is sent
   * as unknown.
   */
  complete(outcome: RunOutcome): Promise<void>;
}

/**
 * Asks the gateway to keep the key waiting for `withinSeconds` from now, at most the token's `maxSeconds`. Call it
 * before any write: the answer of 202 may have got lost, and then the key runs again after its deadline.
 * @throws RunOverError
 */
export async function heartbeat(
  token: RunToken,
  options: CallbackOptions & { readonly withinSeconds: number; readonly api: ApiTransport },
): Promise<AsyncRun> {
  const withinSeconds = Math.min(options.withinSeconds, token.maxSeconds);
  const wallMs = systemClock.wallNow() - systemClock.now();
  const { askedAtMs, body } = await send(token, { status: 'accepted', withinSeconds }, options);
  // Counted from before the request, so it ends before the gateway's; on the steady clock, which nothing sets.
  const deadlineMs = askedAtMs + Math.min(withinSeconds, Number(body['withinSeconds'] ?? 0)) * 1000;
  const signal = AbortSignal.timeout(Math.max(0, deadlineMs - systemClock.now()));
  const api = new ApiWriter(options.api, { signal, deadlineMs }, { namespace: token.writesTo, writes: token.writes });
  const completeRun = async (outcome: RunOutcome): Promise<void> => {
    // Nothing may be written after the gateway knows that the run has ended.
    await api.finish();
    const [doubt] = api.unanswered;
    await send(token, doubt ? { status: 'unknown', message: doubt.message } : outcome, options);
  };
  return { api, signal, deadlineMs: deadlineMs + wallMs, complete: completeRun };
}

/**
 * Reports the result of a run, after its last write. Retries until the gateway accepts it, because the gateway may be
 * away for a while.
 * @throws RunOverError when it comes too late, or a second time.
 */
export async function complete(token: RunToken, outcome: RunOutcome, options: CallbackOptions): Promise<void> {
  await send(token, outcome, options);
}

async function send(
  { url, maxSeconds: _, writesTo: __, writes: ___, ...run }: RunToken,
  result: RequestResult,
  { secrets, signal = AbortSignal.timeout(GIVE_UP_MS), fetch: post = fetch }: CallbackOptions,
): Promise<{ askedAtMs: number; body: Record<string, unknown> }> {
  const keys = await Promise.all(secrets.map(importSecret));
  const message: CallbackBody = { version: CONTRACT_VERSION, ...run, result };
  const body = formatJson(message);
  const id = crypto.randomUUID();
  for (let failures = 1; ; failures += 1) {
    const askedAtMs = systemClock.now();
    // Each attempt is signed anew, because the gateway refuses an old signature.
    const headers = {
      ...(await sign(keys, { id, nowMs: systemClock.wallNow(), body })),
      'content-type': 'application/json',
    };
    const answer = await attempt(post, url, { method: 'POST', headers, body, redirect: 'manual', signal });
    if (answer.kind === 'taken') return { askedAtMs, body: answer.body };
    if (answer.kind === 'refused') throw answer.error;
    const { error, retryAfterMs = 0 } = answer;
    if (!signal.aborted) await systemClock.sleep(Math.max(backoffMs(SEND_AGAIN_MS, failures), retryAfterMs), signal);
    if (signal.aborted) throw new Error(`the outcome of run ${run.run} was not taken: ${error}`);
  }
}

const GIVE_UP_MS = 300_000;
const SEND_AGAIN_MS = [250, 15_000] as const;

type Attempt =
  | { readonly kind: 'taken'; readonly body: Record<string, unknown> }
  | { readonly kind: 'refused'; readonly error: Error }
  /** The gateway may have accepted it, or not, or may do so later. */
  | { readonly kind: 'again'; readonly error: string; readonly retryAfterMs?: number | undefined };

async function attempt(post: typeof fetch, url: string, init: RequestInit): Promise<Attempt> {
  try {
    const response = await post(url, init);
    const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
    const ours = response.headers.has(LEVELHOOK_HEADER);
    if (response.ok && ours) return { kind: 'taken', body };
    const text = `the gateway answered ${response.status}: ${JSON.stringify(body['error'] ?? 'no reason')}`;
    if (ours && [409, 410].includes(response.status)) return { kind: 'refused', error: new RunOverError(text) };
    if (ours && response.status < 429) return { kind: 'refused', error: new Error(text) };
    return {
      kind: 'again',
      error: text,
      retryAfterMs: parseRetryAfter(response.headers.get('retry-after'), systemClock.wallNow()),
    };
  } catch (error) {
    return { kind: 'again', error: messageOf(error) };
  }
}
