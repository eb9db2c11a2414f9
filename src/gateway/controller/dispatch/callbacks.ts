import { type AdmittedLine, formatObjectKey, type Runtime } from '../../../core/index.ts';
import type { CallbackBody } from '../../../contract/index.ts';
import { type TokenClaims, TokenError, type TokenRuns } from '../access/token.ts';
import type { WorkQueue } from '../workqueue/work-queue.ts';
import type { Dispatcher } from './dispatcher.ts';

/** The result of a callback. */
export type CallbackEnd =
  /** `withinMs`: the run goes on for this long. Undefined: it is over. */
  | { readonly kind: 'taken'; readonly withinMs?: number }
  /** The run is no longer in flight: its outcome was recorded, or its time was over. */
  | { readonly kind: 'over'; readonly message: string }
  /** The run is no longer in flight, and the key's next run is under way. */
  | { readonly kind: 'superseded'; readonly message: string };

/** Tells which callbacks are the function's. */
export interface CallbackTokens {
  /** Checks the `callback.token` of a trigger. @throws TokenError */
  readonly verify: (token: string) => TokenClaims;
  /** Whether the function's account is still there, as far as the apiserver answers. */
  readonly hasAccount: () => Promise<boolean>;
}

export interface CallbacksOptions {
  readonly controller: string;
  /** See `ControllerSpec.declaration`. */
  readonly declaration: string;
  readonly queue: WorkQueue;
  readonly dispatcher: Dispatcher;
  readonly tokens: CallbackTokens;
  /** The incarnation of the queue; undefined while the queue is being checked. */
  readonly incarnation: () => Promise<string | undefined>;
  /** Whether a line about a callback may be logged above debug. */
  readonly admitLine: () => AdmittedLine | undefined;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
}

/**
 * Accepts the outcomes of runs that went on after their 202. Any gateway can do so, because Redis has all the state.
 * Callbacks are fenced by the run number and by the token, which names the declaration of the controller, the runs of
 * its trigger, and the incarnation of the queue. So a callback that comes twice, late, for another run or from an
 * earlier function changes nothing. The same callback sent again gets `over`, because its run is over.
 */
export class Callbacks {
  readonly #options: CallbacksOptions;

  constructor(options: CallbacksOptions) {
    this.#options = options;
  }

  /** @throws when Redis or the apiserver does not answer: then nothing was changed, and it may be sent again. */
  async handle(body: CallbackBody): Promise<CallbackEnd> {
    const { admitLine, controller, runtime } = this.#options;
    const { logger, metrics } = runtime;
    const key = formatObjectKey(body);
    const end = await this.#decide(key, body);
    metrics.count('levelhook_callbacks_total', { controller, end: end.kind });
    const reason = 'message' in end ? { reason: end.message } : {};
    const admitted = admitLine();
    const level = end.kind === 'taken' ? 'info' : 'warn';
    logger[admitted ? level : 'debug'](
      { controller, key, run: body.run, status: body.result.status, end: end.kind, ...reason, ...admitted },
      'callback',
    );
    return end;
  }

  async #decide(key: string, { token, run, result }: CallbackBody): Promise<CallbackEnd> {
    const { dispatcher, queue, runtime } = this.#options;
    const named = this.#runsOf(token);
    // First of all, because it costs no request.
    if (named && named.keys[run] !== key)
      return { kind: 'over', message: `the token is not for run ${run} of this key` };
    if (named && !(await this.#options.tokens.hasAccount())) {
      return { kind: 'over', message: "the function's ServiceAccount is gone, or is another one" };
    }
    if (!named || named.incarnation !== (await this.#options.incarnation())) {
      return { kind: 'over', message: 'the function is declared anew, or the queue has lost data since' };
    }
    const { running, failures } = await queue.inspector.status(key);
    if (running?.run !== run) return notInFlight(run, running?.run);
    const finish = await dispatcher.concluded({ key, run, failures, deadlineMs: running.deadlineMs }, result);
    if (finish.kind === 'unknown') {
      // Its run stays on record, and is settled at its deadline.
      if (result.status !== 'accepted') return { kind: 'taken' };
      return { kind: 'over', message: 'this controller no longer accepts callbacks' };
    }
    if (!(await queue.settle(key, run, finish)))
      return notInFlight(run, (await queue.inspector.status(key)).running?.run);
    return finish.kind === 'accepted'
      ? { kind: 'taken', withinMs: finish.untilMs - runtime.clock.now() }
      : { kind: 'taken' };
  }

  /** The runs that a token names; undefined when it is not good for this controller, or not any more. */
  #runsOf(token: string): TokenRuns | undefined {
    const { controller, declaration, tokens } = this.#options;
    try {
      const claims = tokens.verify(token);
      return claims.controller === controller && claims.declaration === declaration ? claims.runs : undefined;
    } catch (error) {
      if (error instanceof TokenError) return undefined;
      throw error;
    }
  }
}

function notInFlight(run: number, current: number | undefined): CallbackEnd {
  if (current !== undefined && current > run) {
    return { kind: 'superseded', message: `run ${run} is over, and run ${current} of this key is under way` };
  }
  return { kind: 'over', message: `run ${run} is no longer in flight: its outcome was recorded, or its time was over` };
}
