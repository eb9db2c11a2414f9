import type { Runtime } from '../../core/index.ts';
import type { GatewayWriter } from '../cache/gateway-writer.ts';
import type { Informers } from '../cache/informers.ts';
import type { Redis } from '../redis/redis.ts';

export interface LeadershipOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly redis: Pick<Redis, 'ping'>;
  readonly writer: Pick<GatewayWriter, 'begin'>;
  readonly informers: Pick<Informers, 'lead' | 'follow'>;
  /** Whether this gateway leads, by the clock. */
  readonly isLeading: () => boolean;
  /** A leader that Redis does not answer for so long gives up. Milliseconds. */
  readonly withoutRedisMs: number;
  /** Called when the views are taken. @param signal aborted when this gateway leads no longer. */
  readonly onLead: (signal: AbortSignal) => void;
}

/** Another gateway that has not noticed the end of its term is left this much time before the views are taken again. */
const TAKE_AGAIN_MS = 200;
const ASK_REDIS_MS = 1000;
/** For what is still being written when the leadership ends. */
const END_MS = 1000;

/**
 * What a gateway does when it begins and ceases to lead: it takes the views and continues each from its version,
 * without a list, and gives them up again. The writer ID of the term protects the views: a gateway that still writes
 * after its term is refused, and one that takes the views late, because it stood still, loses them again.
 *
 * A leader that cannot reach Redis gives up, so that a gateway leads that can.
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  /** While this gateway leads. */
  #signal: AbortSignal | undefined;
  #term = new AbortController();
  /** Turns of taking and giving up, one after the other. */
  #turn: Promise<void> = Promise.resolve();

  constructor(options: LeadershipOptions) {
    this.#options = options;
  }

  /**
   * This gateway leads until `signal` is aborted, or until Redis does not answer. Resolves when the views are given up,
   * or a second later: with Redis away that takes until it is back, and the next term waits for it. Never rejects.
   */
  async lead(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.runtime;
    this.#signal = signal;
    this.#begin();
    await this.#untilOver(signal);
    this.#signal = undefined;
    this.#end();
    const over = new AbortController();
    await Promise.race([this.#turn, clock.sleep(END_MS, over.signal)]);
    over.abort();
  }

  /**
   * A view carries another gateway's ID: one that has not noticed that it no longer leads. Does nothing in a follower.
   */
  retake(): void {
    const { clock, logger } = this.#options.runtime;
    if (!this.#signal || this.#term.signal.aborted) return;
    logger.warn({}, 'another gateway has written to a view though this one leads: taking the views again');
    this.#end();
    void clock.sleep(TAKE_AGAIN_MS, this.#signal).then(() => this.#begin());
  }

  async #untilOver(signal: AbortSignal): Promise<void> {
    const { redis, runtime, withoutRedisMs } = this.#options;
    const { clock, logger } = runtime;
    while (!signal.aborted) {
      const answered = new AbortController();
      redis.ping().then(
        () => answered.abort(),
        () => {},
      );
      await clock.sleep(withoutRedisMs, AbortSignal.any([signal, answered.signal]));
      if (!answered.signal.aborted && !signal.aborted) {
        logger.warn({ seconds: withoutRedisMs / 1000 }, 'Redis does not answer: this gateway gives up the leadership');
        return;
      }
      await clock.sleep(ASK_REDIS_MS, signal);
    }
  }

  #begin(): void {
    const signal = this.#signal;
    if (!signal || signal.aborted) return;
    this.#term = new AbortController();
    const { informers, isLeading, onLead, writer } = this.#options;
    const term = writer.begin(AbortSignal.any([signal, this.#term.signal]), isLeading);
    this.#turn = this.#turn
      .then(() => informers.lead(term))
      .then(() => {
        if (!term.isOver()) onLead(term.signal);
        return undefined;
      });
  }

  #end(): void {
    this.#term.abort();
    this.#turn = this.#turn.then(() => this.#options.informers.follow());
  }
}
