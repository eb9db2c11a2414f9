import { type Runtime, UserError } from '../../core/index.ts';
import type { GatewayWriter } from '../informer/cache/gateway-writer.ts';
import type { Informers } from '../informer/cache/informers.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { raiseDataVersion } from './data-version.ts';
import type { LeaderElection } from './leader-election.ts';

export interface LeadershipOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: Pick<RedisLocation, 'redis' | 'registryKey'>;
  readonly writer: Pick<GatewayWriter, 'begin'>;
  readonly informers: Pick<Informers, 'lead' | 'follow'>;
  readonly election: Pick<LeaderElection, 'run' | 'isLeading'>;
  /** A leader gives up when Redis does not answer for this time. Milliseconds. */
  readonly withoutRedisMs: number;
  /** The identity of the gateway that should lead in place of this one; undefined while there is none. */
  readonly successor: () => string | undefined;
  readonly on: LeadershipEvents;
}

export interface LeadershipEvents {
  /** This gateway has taken the views. @param signal aborted when this gateway leads no longer. */
  readonly lead: (signal: AbortSignal) => void;
  /** This gateway must not lead, because a newer build has written the data in Redis. */
  readonly unusable: (error: UserError) => void;
}

/** How long this gateway waits before it takes the views again, so that a gateway notices that its term has ended. */
const TAKE_AGAIN_MS = 200;
const ASK_REDIS_MS = 1000;
/** How long the end of a leadership waits for writes under way. */
const END_MS = 1000;

/**
 * Takes the views when this gateway begins to lead, and gives them up when it ceases to lead. Each view continues from
 * its version, without a list. The writer ID of the term protects the views: Redis refuses the writes of a gateway
 * whose term is over, and a frozen gateway that takes the views too late loses them again.
 *
 * A leader that cannot reach Redis gives up, and a follower that cannot reach Redis does not stand for election, so
 * that a gateway with a connection leads. A leader with a successor hands the Lease over (see `LeaderHandover`).
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  /** While this gateway leads. */
  #signal: AbortSignal | undefined;
  #term = new AbortController();
  /** Taking and giving up the views, one after the other. */
  #turn: Promise<void> = Promise.resolve();

  constructor(options: LeadershipOptions) {
    this.#options = options;
  }

  /** Stands for election until `stop` is aborted, and leads whenever it is elected. Never rejects. */
  run(stop: AbortSignal): Promise<void> {
    const onLead = (signal: AbortSignal): Promise<string | undefined> => this.#lead(signal);
    return this.#options.election.run({ onLead, mayStand: () => this.#redisAnswers(ASK_REDIS_MS) }, stop);
  }

  /**
   * Leads until `signal` is aborted, Redis does not answer, or this gateway has a successor. Resolves when the views
   * are given up, at most a second later: while Redis is away, giving them up takes until it is back, and the next term
   * waits for it.
   * @returns the successor's identity, if there is a successor.
   */
  async #lead(signal: AbortSignal): Promise<string | undefined> {
    const { clock } = this.#options.runtime;
    const over = this.#untilOver(signal);
    const isOver = over.then(() => false);
    if (!(await Promise.race([this.#mayWrite(), isOver]))) return undefined;
    this.#signal = signal;
    this.#begin();
    const successor = await over;
    this.#signal = undefined;
    this.#end();
    const ended = new AbortController();
    await Promise.race([this.#turn, clock.sleep(END_MS, ended.signal)]);
    ended.abort();
    return successor;
  }

  /**
   * Takes the views again after a view has got the ID of another gateway, which has not noticed that it no longer
   * leads. Does nothing in a follower.
   */
  retake(): void {
    const { clock, logger } = this.#options.runtime;
    if (!this.#signal || this.#term.signal.aborted) return;
    logger.warn({}, 'another gateway has written to a view though this one leads: taking the views again');
    this.#end();
    void clock.sleep(TAKE_AGAIN_MS, this.#signal).then(() => this.#begin());
  }

  /** @returns true. @throws when a newer build has written the data in Redis, or Redis fails. */
  async #mayWrite(): Promise<true> {
    const { location, on } = this.#options;
    try {
      await raiseDataVersion(location);
      return true;
    } catch (error) {
      // A newer gateway has led since this one started.
      if (error instanceof UserError) on.unusable(error);
      throw error;
    }
  }

  async #untilOver(signal: AbortSignal): Promise<string | undefined> {
    const { runtime, successor, withoutRedisMs } = this.#options;
    const { clock, logger } = runtime;
    while (!signal.aborted) {
      const next = successor();
      if (next !== undefined) {
        logger.info({ successor: next }, 'handing the Lease over to a gateway that knows more functions or views');
        return next;
      }
      if (!(await this.#redisAnswers(withoutRedisMs, signal)) && !signal.aborted) {
        logger.warn({ seconds: withoutRedisMs / 1000 }, 'Redis does not answer: this gateway gives up the leadership');
        return undefined;
      }
      await clock.sleep(ASK_REDIS_MS, signal);
    }
    return undefined;
  }

  /** Whether Redis answers within this time, or before `signal` is aborted. Never rejects. */
  async #redisAnswers(ms: number, signal?: AbortSignal): Promise<boolean> {
    const { location, runtime } = this.#options;
    const answered = new AbortController();
    location.redis.ping().then(
      () => answered.abort(),
      () => {},
    );
    await runtime.clock.sleep(ms, signal ? AbortSignal.any([signal, answered.signal]) : answered.signal);
    return answered.signal.aborted;
  }

  #begin(): void {
    const signal = this.#signal;
    if (!signal || signal.aborted) return;
    this.#term = new AbortController();
    const { election, informers, on, writer } = this.#options;
    const term = writer.begin(AbortSignal.any([signal, this.#term.signal]), () => election.isLeading());
    this.#turn = this.#turn
      .then(() => informers.lead(term))
      .then(() => {
        if (!term.isOver()) on.lead(term.signal);
        return undefined;
      });
  }

  #end(): void {
    this.#term.abort();
    this.#turn = this.#turn.then(() => this.#options.informers.follow());
  }
}
