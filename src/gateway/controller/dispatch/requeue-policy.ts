import { keyBackoffMs } from '../workqueue/rate-limiter.ts';
import type { Finish } from '../workqueue/work-queue.ts';
import type { Outcome } from '../endpoint/outcome.ts';

/** The label `result` of `controller_runtime_reconcile_total`, with controller-runtime's values. */
export type ReconcileResult = (typeof RECONCILE_RESULTS)[number];
export const RECONCILE_RESULTS = ['success', 'requeue_after', 'error'] as const;

export interface Decision {
  readonly finish: Finish;
  /** Undefined: the run is not over, or no trigger was sent. */
  readonly result: ReconcileResult | undefined;
}

/**
 * Decides from the outcome and the failures so far when a key runs again; no other place decides this. As in
 * controller-runtime's reconcileHandler (pkg/internal/controller/controller.go), an error takes precedence over a
 * requeue, and a requeue resets the failures. After a terminal error the key is not retried and becomes a dead letter.
 */
export function decide(outcome: Outcome, failures: number, nowMs: number): Decision {
  switch (outcome.kind) {
    case 'done':
      // As controller-runtime's RequeueAfter: 0 asks for nothing.
      if (!outcome.requeueAfterMs) {
        return { finish: { kind: 'ended', failures: 'forget' }, result: 'success' };
      }
      return {
        finish: { kind: 'ended', failures: 'forget', againAfterMs: Math.max(outcome.requeueAfterMs, SHORTEST_MS) },
        result: 'requeue_after',
      };
    case 'error':
      return {
        finish: { kind: 'ended', failures: 'count', againAfterMs: retryMs(outcome.retryAfterMs, failures + 1) },
        result: 'error',
      };
    case 'refused':
      return {
        finish: {
          kind: 'ended',
          failures: 'count',
          againAfterMs: Math.min(keyBackoffMs(failures + 1), REFUSED_MAX_MS),
          elsewhere: true,
        },
        result: 'error',
      };
    case 'deferred':
      // The function named the time itself and did no work: not a failure.
      return {
        finish: { kind: 'ended', failures: 'keep', againAfterMs: outcome.retryAfterMs },
        result: 'requeue_after',
      };
    case 'not-sent':
      return { finish: NOT_SENT, result: undefined };
    case 'terminal':
      return { finish: { kind: 'ended', failures: 'keep', dead: true }, result: 'error' };
    case 'accepted':
      return { finish: { kind: 'accepted', untilMs: nowMs + outcome.withinMs }, result: undefined };
    case 'unknown':
      return { finish: { kind: 'unknown' }, result: 'error' };
  }
}

/** The end of a run whose trigger was not sent: nothing has failed, and the circuit says when the key runs. */
export const NOT_SENT = { kind: 'ended', failures: 'keep', againAfterMs: 0, sent: false } as const satisfies Finish;

/** Whatever time a function names, its keys do not spin. */
const SHORTEST_MS = 100;

/** A named time may be shorter than the backoff, but not shorter than `SHORTEST_MS` once the backoff is longer. */
function retryMs(namedMs: number | undefined, failures: number): number {
  const backoffMs = keyBackoffMs(failures);
  return namedMs ? Math.max(namedMs, Math.min(backoffMs, SHORTEST_MS)) : backoffMs;
}

/**
 * A refused connection says nothing about the key, and events add to its failures while the function is away. Without
 * this bound a busy key waited 80 s (measured) after an absence of ten seconds. All keys of the function are tried
 * again within this time of its return.
 */
const REFUSED_MAX_MS = 30_000;

/** A run whose deadline passed without an outcome: a failure like another, once its writes can be accounted for. */
export function decideLost(failures: number): Finish & { readonly kind: 'ended' } {
  return { kind: 'ended', failures: 'count', againAfterMs: keyBackoffMs(failures + 1) };
}
