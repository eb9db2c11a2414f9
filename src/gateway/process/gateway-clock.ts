import { type Clock, type Logger, messageOf, systemClock } from '../../core/index.ts';
import type { Redis } from '../../ground/redis/redis.ts';

/** The field of the registry that holds the record of time. */
export const CLOCK_FIELD = 'clock';

/** A gateway's last record of the time, for the next gateway. Milliseconds since the epoch. */
interface TimeRecord {
  /** The gateways' time. */
  readonly nowMs: number;
  /** The wall clock of the gateway's machine at that moment, and that of Redis' machine. */
  readonly wallMs: number;
  readonly redisMs: number;
}

/**
 * Two clocks this far apart show the same time, because a round trip lies between the readings. The margin of runs in
 * flight is larger.
 */
const SAME_MS = 1000;
/** A larger difference is logged. NTP moves a clock by less. */
const TOLD_MS = 10_000;
/** A record further ahead than any clock is set by mistake is damaged. */
const DAMAGED_MS = 20 * 365 * 86_400_000;
const RECORD_MS = 1000;
/**
 * How far a follower moves its time in a second: a tenth of the margin that runs in flight have beyond their deadline.
 * This is more than two clocks ever drift in that time. It is too little to end a run early when Redis has moved to a
 * machine with another clock.
 */
const MAX_STEP_MS = 100;

/**
 * The time that all gateways of a cluster share: steady within a process, and continued by the next process. Redis
 * holds due times and the deadlines of runs in flight as milliseconds of this clock. A gateway whose machine's clock
 * was set back or ahead must not delay them or treat them as past. So each gateway records its time every second, with
 * the wall clocks of its machine and of Redis, and the next gateway continues from this record. infra/adr/0036 has the
 * reasons and the limits.
 */
export class GatewayClock implements Clock {
  readonly #system: Clock;
  #offsetMs = 0;
  /** The latest time that `now` has returned. */
  #latestMs = -Infinity;

  /** @param system Default: `systemClock`. */
  constructor(system: Clock = systemClock) {
    this.#system = system;
  }

  now(): number {
    this.#latestMs = Math.max(this.#latestMs, this.#system.now() + this.#offsetMs);
    return this.#latestMs;
  }

  wallNow(): number {
    return this.#system.wallNow();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#system.sleep(ms, signal);
  }

  /**
   * Goes on from the record of the gateways before this one, if there is any. Before anything that lasts is timed by
   * this clock.
   */
  async continueFrom(redis: Redis, registryKey: string, logger: Logger): Promise<void> {
    const text = await redis.hget(registryKey, CLOCK_FIELD);
    if (text === null) return;
    const [own, redisMs] = [this.#system.now(), await timeOf(redis)];
    const continued = continuedTime(parseRecord(text), { nowMs: own, wallMs: this.#system.wallNow(), redisMs });
    if (continued === undefined) {
      logger.error({ record: text }, 'the record of time in Redis is damaged, using the clock of this machine');
      return;
    }
    this.#offsetMs = continued - own;
    this.#latestMs = -Infinity;
    if (Math.abs(this.#offsetMs) < TOLD_MS) return;
    logger.warn(
      { aheadSeconds: Math.round(this.#offsetMs / 1000) },
      'the clock of this machine differs from the time of earlier gateways, continuing their time',
    );
  }

  /**
   * Every second from now on, until `signal` is aborted: the leader writes the record, and the followers approach the
   * recorded time, so that the clocks of gateways that run for weeks do not drift apart. Never rejects.
   */
  async keep(
    redis: Redis,
    registryKey: string,
    { logger, signal, leads }: { logger: Logger; signal: AbortSignal; leads: () => boolean },
  ): Promise<void> {
    let failed = false;
    while (!signal.aborted) {
      try {
        // While Redis is away a command would wait for it, and then write down a time that has passed.
        if (redis.status === 'ready')
          await (leads() ? this.#write(redis, registryKey) : this.#approach(redis, registryKey));
        failed = false;
      } catch (error) {
        if (!failed) logger.warn({ error: messageOf(error) }, 'the time could not be recorded or read, trying again');
        failed = true;
      }
      await this.sleep(RECORD_MS, signal);
    }
  }

  async #approach(redis: Redis, registryKey: string): Promise<void> {
    const [text, redisMs] = await Promise.all([redis.hget(registryKey, CLOCK_FIELD), timeOf(redis)]);
    const record = text === null ? undefined : parseRecord(text);
    if (!record) return;
    const behindMs = record.nowMs + Math.max(0, redisMs - record.redisMs) - this.now();
    if (Math.abs(behindMs) > DAMAGED_MS) return;
    this.#offsetMs += Math.min(MAX_STEP_MS, Math.max(-MAX_STEP_MS, behindMs));
  }

  async #write(redis: Redis, registryKey: string): Promise<void> {
    const redisMs = await timeOf(redis);
    const record: TimeRecord = { nowMs: this.now(), wallMs: this.wallNow(), redisMs };
    await redis.hset(registryKey, CLOCK_FIELD, `${record.nowMs} ${record.wallMs} ${record.redisMs}`);
  }
}

/**
 * The gateways' time at a start: the recorded time plus the time since. The time since is the smaller difference that
 * the two wall clocks show. A clock that has run backwards since does not count. So a clock that is set ahead makes no
 * deadline pass, and a clock that is set back delays none.
 * @param start the same three values at the start: `nowMs` is the gateway's time without a record.
 * @returns undefined when the record is damaged.
 */
export function continuedTime(record: TimeRecord | undefined, start: TimeRecord): number | undefined {
  if (!record || Math.abs(record.nowMs - start.nowMs) > DAMAGED_MS) return undefined;
  const passed = [start.wallMs - record.wallMs, start.redisMs - record.redisMs].filter((ms) => ms >= 0);
  const continued = record.nowMs + (passed.length > 0 ? Math.min(...passed) : 0);
  // If the machine's own clock shows the same time, use it, so that the two do not drift apart for good.
  const same = Math.abs(start.nowMs - continued) <= SAME_MS && start.nowMs >= record.nowMs;
  return same ? start.nowMs : continued;
}

function parseRecord(text: string): TimeRecord | undefined {
  if (!/^[0-9]{1,15} [0-9]{1,15} [0-9]{1,15}$/.test(text)) return undefined;
  const [nowMs = 0, wallMs = 0, redisMs = 0] = text.split(' ').map(Number);
  return { nowMs, wallMs, redisMs };
}

async function timeOf(redis: Redis): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}
