import { loadScript, type Redis, type Script } from '../../../ground/redis/redis.ts';
import { decodeReasons } from './redis-records.ts';
import {
  type Pause,
  type PauseScope,
  type KeyList,
  type KeyPage,
  type KeyStatus,
  type Wait,
  waitFor,
} from './key-status.ts';
import { type QueueKeys, scopesOf } from './queue-keys.ts';

/** The numbers of a queue's keys at one moment. */
export interface QueueLevels {
  /** Keys that wait to run now. */
  readonly waiting: number;
  /** Keys in the backlog, which run when there is room; 0 while all keys are paused. */
  readonly low: number;
  /** Runs in flight. */
  readonly running: number;
  /** See `WorkQueue.demand`. */
  readonly demand: number;
  /** When the first key that has not been started was or will be due; Infinity when there is none. */
  readonly firstDueMs: number;
}

/** Reads the records in Redis for `levelhook queue` and the metrics. */
export class RedisInspector {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #levels: Script;
  readonly #failing: Script;

  constructor(redis: Redis, keys: QueueKeys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#levels = loadScript(redis, import.meta.url, 'levels');
    this.#failing = loadScript(redis, import.meta.url, 'failing');
  }

  async status(key: string): Promise<KeyStatus> {
    const { recordPrefix, timers, backlog, debounced, queued, pausedPrefix } = this.#keys;
    const scopes = scopesOf(key);
    const [record, timer, low, added, scopePauses, ready, ...paused] = await Promise.all([
      this.#redis.hgetall(recordPrefix + key),
      this.#redis.zscore(timers, key),
      this.#redis.zscore(backlog, key),
      this.#redis.zscore(debounced, key),
      this.#pausesOf(scopes),
      this.#redis.zscore(queued, key),
      ...scopes.map((scope) => this.#redis.zscore(pausedPrefix + scope, key)),
    ]);
    const { run, deadline, busy, dirty, failures, dead, queuedAt, reasons = '', barrier, barrierAt, tokenAt } = record;
    const running = run === undefined ? undefined : { run: Number(run), deadlineMs: Number(deadline) };
    const waits: Wait[] = [];
    if (running && busy) waits.push({ reason: 'busy', untilMs: running.deadlineMs });
    scopePauses.forEach((pause, at) => {
      // A pause of all keys leaves low-priority keys in the backlog.
      if (pause && (paused[at] ?? low)) waits.push(waitFor(pause));
    });
    // A key at rest keeps its barrier, too. The key waits for it only when it has a reason to run.
    if (barrier !== undefined && (timer ?? queuedAt) && !running) {
      waits.push({ reason: 'barrier', sinceMs: Number(barrierAt), barrier });
    }
    if (tokenAt !== undefined) waits.push({ reason: 'rate-limit', untilMs: Number(tokenAt) });
    if (added !== null) waits.push({ reason: 'debounce', untilMs: Number(added) });
    return {
      key,
      // A key that was woken while it runs becomes ready at the end of its run.
      queued: ready !== null || (running !== undefined && queuedAt !== undefined && added === null),
      ...(running ? { running } : {}),
      dirty: dirty !== undefined || (running !== undefined && queuedAt !== undefined),
      backlog: low !== null,
      ...(timer === null ? {} : { timerMs: Math.floor(Number(timer)) }),
      waits,
      pauses: scopePauses.filter((pause) => pause !== undefined),
      failures: Number(failures ?? 0),
      ...(dead === undefined ? {} : { deadSinceMs: Number(dead) }),
      ...(queuedAt === undefined ? {} : { queuedAtMs: Number(queuedAt) }),
      reasons: decodeReasons(reasons),
    };
  }

  /**
   * The pause of each scope; undefined where there is none. Reads these scopes only, because a queue may have many
   * pauses.
   */
  async #pausesOf(scopes: readonly PauseScope[]): Promise<(Pause | undefined)[]> {
    const [since, ends] = await Promise.all([
      this.#redis.hmget(this.#keys.pauses, ...scopes),
      this.#redis.zmscore(this.#keys.pauseEnds, ...scopes),
    ]);
    return scopes.map((scope, at) => {
      const [sinceMs, untilMs] = [since[at] ?? undefined, ends[at] ?? undefined];
      if (sinceMs === undefined) return undefined;
      return { scope, sinceMs: Number(sinceMs), ...(untilMs === undefined ? {} : { untilMs: Number(untilMs) }) };
    });
  }

  async pauses(): Promise<Pause[]> {
    const [pauses, ends] = await Promise.all([
      this.#redis.hgetall(this.#keys.pauses),
      this.#redis.zrange(this.#keys.pauseEnds, '0', '-1', 'WITHSCORES'),
    ]);
    return Object.entries(pauses).map(([scope, since]) => {
      const at = ends.indexOf(scope);
      const until = at < 0 ? {} : { untilMs: Number(ends[at + 1]) };
      return { scope: scope as PauseScope, sinceMs: Number(since), ...until };
    });
  }

  /** @param untilMs see `WorkQueue.demand` */
  async levels(untilMs: number): Promise<QueueLevels> {
    const { queued, inFlight, timers, debounced, backlog, pauses } = this.#keys;
    const answer = await this.#levels([queued, inFlight, timers, debounced, backlog, pauses], [untilMs]);
    const [waiting, running, demand, firstDue, low] = answer as [number, number, number, string, number];
    return { waiting, low, running, demand, firstDueMs: firstDue === '' ? Infinity : Number(firstDue) };
  }

  /** When the first pause ends by itself; Infinity when none does. */
  firstPauseEndMs(): Promise<number> {
    return this.#lowestScore(this.#keys.pauseEnds);
  }

  async #lowestScore(set: string): Promise<number> {
    const [, score = Infinity] = await this.#redis.zrange(set, '0', '0', 'WITHSCORES');
    return Number(score);
  }

  async list(list: KeyList, { offset, limit }: { offset: number; limit: number }): Promise<KeyPage> {
    const { queued, timers, inFlight, backlog, dead } = this.#keys;
    switch (list) {
      case 'queued':
        return this.#sorted([queued], offset, limit);
      case 'running':
        return this.#sorted([inFlight], offset, limit);
      case 'timers':
        return this.#sorted([timers], offset, limit);
      case 'failing':
        return this.#failed(offset, limit);
      case 'backlog':
        return this.#sorted([backlog], offset, limit);
      case 'dead':
        return this.#sorted([dead], offset, limit);
      case 'waiting': {
        const pauses = await this.pauses();
        const paused = pauses.map(({ scope }) => this.#keys.pausedPrefix + scope);
        return this.#sorted([this.#keys.debounced, ...paused], offset, limit);
      }
    }
  }

  async #failed(offset: number, limit: number): Promise<KeyPage> {
    const { recordPrefix, timers } = this.#keys;
    const [total, ...found] = (await this.#failing([timers], [recordPrefix, offset, limit, MOST_TIMERS])) as [
      number,
      ...string[],
    ];
    return { total, keys: pairsOf(found) };
  }

  /** Pages through several sets, one after the other. */
  async #sorted(sets: readonly string[], offset: number, limit: number): Promise<KeyPage> {
    const keys: { key: string; atMs: number }[] = [];
    let total = 0;
    for (const set of sets) {
      const size = await this.#redis.zcard(set);
      const from = Math.max(0, offset - total);
      total += size;
      if (keys.length >= limit || from >= size) continue;
      const found = await this.#redis.zrange(set, `${from}`, `${from + limit - keys.length - 1}`, 'WITHSCORES');
      keys.push(...pairsOf(found));
    }
    return { total, keys };
  }
}

/** The timers that the list of failing keys reads at most, in about 2 ms of Redis' time. */
const MOST_TIMERS = 3000;

function pairsOf(found: readonly string[]): KeyPage['keys'][number][] {
  return found.flatMap((key, at) => (at % 2 === 0 ? [{ key, atMs: Math.floor(Number(found[at + 1])) }] : []));
}
