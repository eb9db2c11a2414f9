import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../core/index.ts';
import { LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { MAX_DESCRIBING_BYTES } from './describe.ts';
import type { Answer, Endpoint, EndpointRequest } from './endpoint.ts';

export interface ColdStartOptions {
  readonly endpoint: Pick<Endpoint, 'send'>;
  readonly clock: Pick<Clock, 'now'>;
  /** How long a function may take to start; 0: it is not asked before its triggers. */
  readonly windowMs: number;
}

/** A function that has been silent for this time may have been scaled to zero. Platforms wait longer before they do. */
const SILENT_MS = 10_000;
/** A platform may hold a request while the function starts. */
const MAX_ASK_MS = 10_000;
/**
 * If no key has called an absent function for this time, the next call begins a new start window. It is longer than the
 * wait of a key that finds its function absent.
 */
const FORGOTTEN_MS = 60_000;
/** Answers of a proxy or a platform in place of the function's. */
const PROXY_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Keeps triggers from a function that is not there yet. If the function has been silent for ten seconds, or the last
 * request to it got no answer of its own, the gateway first asks it for its description. That request runs nothing, so
 * it may be repeated whatever became of it, while a trigger that a proxy answered with 502 may have been delivered.
 *
 * Within the start window, which begins with the first request that the function did not answer, no trigger is sent
 * and nothing has failed. After the window triggers are sent whatever the function answers. A later window begins when
 * the function has answered, or when no key has called it for a minute.
 */
export class ColdStart {
  readonly #options: ColdStartOptions;
  /** When the function last answered; undefined: never, or the last request got no answer of its own. */
  #heardMs: number | undefined;
  /** Since when and until when the function was found absent; undefined: it has answered since. */
  #absence: { readonly sinceMs: number; readonly untilMs: number } | undefined;
  #inFlight = 0;
  /** The request that all triggers of this moment wait for. */
  #asking: Promise<Answer> | undefined;

  constructor(options: ColdStartOptions) {
    this.#options = options;
  }

  /**
   * Asks the function for its description when it `isInDoubt`. Runs that start together share one request.
   * @param timeoutMs the time that the run has left: the request takes half of it at most.
   * @param charge charges processor time for reading the answer.
   * @param hold counts the bytes of the answer; the caller releases it.
   * @returns why no trigger must be sent now; undefined: one may be sent.
   */
  async absence(
    timeoutMs: number,
    charge?: EndpointRequest['charge'],
    hold?: EndpointRequest['hold'],
  ): Promise<string | undefined> {
    this.#asking ??= this.#ask(Math.min(MAX_ASK_MS, timeoutMs / 2), { charge, hold });
    const answer = await this.#asking;
    return isOfFunction(answer) || !this.isStarting ? undefined : textOf(answer);
  }

  /** Sends a trigger, and records whether the function itself has answered. */
  async send(request: EndpointRequest): Promise<Answer> {
    this.#inFlight += 1;
    try {
      return this.#learn(await this.#options.endpoint.send(request));
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Whether the function is absent, and its start window is not over. */
  get isStarting(): boolean {
    const { clock, windowMs } = this.#options;
    return this.#absence !== undefined && clock.now() - this.#absence.sinceMs < windowMs;
  }

  /** Whether the function has to be asked before the next trigger. */
  get isInDoubt(): boolean {
    const { clock, windowMs } = this.#options;
    const nowMs = clock.now();
    if (windowMs === 0) return false;
    if (this.#absence) return this.isStarting || nowMs - this.#absence.untilMs > FORGOTTEN_MS;
    if (this.#heardMs === undefined) return true;
    return this.#inFlight === 0 && nowMs - this.#heardMs > SILENT_MS;
  }

  async #ask(timeoutMs: number, reading: Pick<EndpointRequest, 'charge' | 'hold'>): Promise<Answer> {
    try {
      const request = { body: '', id: randomUUID(), timeoutMs, ...reading } as const;
      return this.#learn(await this.#options.endpoint.send({ ...request, maxAnswerBytes: MAX_DESCRIBING_BYTES }));
    } finally {
      this.#asking = undefined;
    }
  }

  #learn(answer: Answer): Answer {
    const nowMs = this.#options.clock.now();
    if (isOfFunction(answer)) {
      this.#heardMs = nowMs;
      this.#absence = undefined;
      return answer;
    }
    this.#heardMs = undefined;
    const { sinceMs, untilMs } = this.#absence ?? { sinceMs: nowMs, untilMs: nowMs };
    this.#absence = { sinceMs: nowMs - untilMs > FORGOTTEN_MS ? nowMs : sinceMs, untilMs: nowMs };
    return answer;
  }
}

/** Whether the function itself has answered. An answer that is too large counts as well. */
function isOfFunction(answer: Answer): boolean {
  if (answer.kind === 'refused') return false;
  if (answer.kind === 'failed') return answer.reason === 'too-large';
  return !PROXY_STATUSES.has(answer.status) || answer.headers[LEVELHOOK_HEADER] !== undefined;
}

function textOf(answer: Answer): string {
  return answer.kind === 'answered' ? `a proxy answered ${answer.status}` : answer.message;
}
