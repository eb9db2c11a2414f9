/**
 * Finishes a run after its function has answered: for a job, a queue's consumer, or the function itself. An entry of
 * its own, since most functions answer when they are done.
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
 * How a run ended, and the objects on which its key depends (`Context.related`). What it wrote need not be told: the
 * key's next run sees everything from before this was sent.
 */
export type RunOutcome = { readonly related?: readonly RelatedRule[] } & (
  | { readonly status: 'done'; readonly requeueAfterSeconds?: number }
  | { readonly status: 'error'; readonly message: string; readonly retryAfterSeconds?: number }
  | { readonly status: 'terminal'; readonly message: string }
);

export interface CallbackOptions {
  /** The secrets that the function's triggers are signed with, or one of them. */
  readonly secrets: readonly string[];
  /** Ends the attempts. Default: after five minutes. */
  readonly signal?: AbortSignal;
  /** Default: the platform's. */
  readonly fetch?: typeof fetch;
}

/**
 * The run is not in flight any more: its outcome has been told, or its time was up. Nothing more may be written for it.
 */
export class RunOverError extends Error {
  override readonly name = 'RunOverError';
  readonly code = 'ERR_LEVELHOOK_RUN_OVER';
}

/**
 * Writes with the credentials of a run, by `fetch`. On Node, `nodeRunTransport` of `levelhook/function/node` trusts the
 * authorities that they name, too.
 */
export function runTransport(credentials: RunCredentials): ApiTransport {
  return fetchKubernetes(credentials, credentials.run);
}

/** A run that goes on, and for which the gateway keeps its key waiting until `deadlineMs`. */
export interface AsyncRun {
  /** Writes until then, and refuses to afterwards: call `heartbeat` again in time for more. */
  readonly api: ApiWriter;
  /** Aborted then. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch, by this machine's clock at the time of the call. */
  readonly deadlineMs: number;
  /**
   * `complete`, after which `api` sends nothing; but with a write of `api` that got no answer the outcome is
   * unknown, whatever is said.
   */
  complete(outcome: RunOutcome): Promise<void>;
}

/**
 * Asks the gateway to keep the key waiting for so long from now, at most the token's `maxSeconds`. To be called before
 * anything is written: the answer of 202 may have got lost, and then the key runs again after its deadline.
 * @throws RunOverError
 */
export async function heartbeat(
  token: RunToken,
  options: CallbackOptions & { readonly withinSeconds: number; readonly api: ApiTransport },
): Promise<AsyncRun> {
  const withinSeconds = Math.min(options.withinSeconds, token.maxSeconds);
  const wallMs = systemClock.wallNow() - systemClock.now();
  const { askedAtMs, body } = await send(token, { status: 'accepted', withinSeconds }, options);
  // From before the gateway began to count; on the steady clock, which nothing sets.
  const deadlineMs = askedAtMs + Math.min(withinSeconds, Number(body['withinSeconds'] ?? 0)) * 1000;
  const signal = AbortSignal.timeout(Math.max(0, deadlineMs - systemClock.now()));
  const api = new ApiWriter(options.api, { signal, deadlineMs });
  const completeRun = async (outcome: RunOutcome): Promise<void> => {
    // Nothing may be written once it is told that the run has ended.
    await api.finish();
    const [doubt] = api.unanswered;
    await send(token, doubt ? { status: 'unknown', message: doubt.message } : outcome, options);
  };
  return { api, signal, deadlineMs: deadlineMs + wallMs, complete: completeRun };
}

/**
 * Tells how a run ended, after its last write. Tries until the gateway has taken it, which may be away for a while.
 * @throws RunOverError when it comes too late, or a second time.
 */
export async function complete(token: RunToken, outcome: RunOutcome, options: CallbackOptions): Promise<void> {
  await send(token, outcome, options);
}

async function send(
  { url, maxSeconds: _, ...run }: RunToken,
  result: RequestResult,
  { secrets, signal = AbortSignal.timeout(GIVE_UP_MS), fetch: post = fetch }: CallbackOptions,
): Promise<{ askedAtMs: number; body: Record<string, unknown> }> {
  const keys = await Promise.all(secrets.map(importSecret));
  const message: CallbackBody = { version: CONTRACT_VERSION, ...run, result };
  const body = formatJson(message);
  const id = crypto.randomUUID();
  for (let failures = 1; ; failures += 1) {
    const askedAtMs = systemClock.now();
    // Signed anew: an old signature is refused.
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
  /** It may or may not have been taken, or will be later. */
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
