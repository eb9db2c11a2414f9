import { type Clock, systemClock } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { decodeReasons } from './redis-records.ts';
import {
  type OpenCircuit,
  type Pause,
  type PauseScope,
  type KeyList,
  type KeyPage,
  type KeyStatus,
  type Wait,
  waitFor,
} from '../key-status.ts';
import { type QueueKeys, scopesOf } from '../queue-keys.ts';
import { DEMAND_AHEAD_MS, type QueueInspector, type QueueLevels } from '../work-queue.ts';

/** The state of this gateway that Redis does not have. */
export interface OwnView {
  readonly clock: Pick<Clock, 'now'>;
  readonly circuit: () => OpenCircuit | undefined;
  readonly passed: (barrier: string) => Promise<boolean>;
}

const NOTHING: OwnView = { clock: systemClock, circuit: () => undefined, passed: async () => false };

/** Reads the records in Redis for `levelhook queue` and the metrics. */
export class RedisInspector implements QueueInspector {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #levels: Script;
  readonly #weigh: Script;
  readonly #own: OwnView;

  /** @param own Default: the circuit is closed, and no barrier is known to have passed. */
  constructor(redis: Redis, keys: QueueKeys, own: OwnView = NOTHING) {
    this.#own = own;
    this.#redis = redis;
    this.#keys = keys;
    this.#levels = loadScript(redis, import.meta.url, 'levels');
    this.#weigh = loadScript(redis, import.meta.url, 'weigh-keys');
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
    // A key that was woken while it runs becomes ready at the end of its run.
    const isQueued = ready !== null || (running !== undefined && queuedAt !== undefined && added === null);
    const waits: Wait[] = [];
    if (running && busy) waits.push({ reason: 'busy', untilMs: running.deadlineMs });
    scopePauses.forEach((pause, at) => {
      // A pause of all keys leaves low-priority keys in the backlog.
      if (pause && (paused[at] ?? low)) waits.push(waitFor(pause));
    });
    // A record keeps its barrier until the key starts. The key waits for it only when it has a reason to run.
    const isHeld = barrier !== undefined && (timer ?? queuedAt) && !running;
    if (isHeld && !(await this.#own.passed(barrier).catch(() => false))) {
      waits.push({ reason: 'barrier', sinceMs: Number(barrierAt), barrier });
    }
    if (tokenAt !== undefined) waits.push({ reason: 'rate-limit', untilMs: Number(tokenAt) });
    if (added !== null) waits.push({ reason: 'debounce', untilMs: Number(added) });
    const circuit = this.#own.circuit();
    if (circuit && !running && (isQueued || low !== null)) {
      const { sinceMs: _, ...until } = circuit;
      waits.push({ reason: 'breaker', ...until });
    }
    return {
      key,
      queued: isQueued,
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

  async levels(): Promise<QueueLevels> {
    const nowMs = this.#own.clock.now();
    const [answer, all] = await Promise.all([
      this.#levels(this.#keys.script, [nowMs + DEMAND_AHEAD_MS]),
      this.pauses(),
    ]);
    const [sizes, low, started, demand, firstDue] = answer as [number[], number, number, number, string];
    const [ready = 0, running = 0, timed = 0, failed = 0, inBacklog = 0, deadLetters = 0] = sizes;
    const firstDueMs = firstDue === '' ? Infinity : Number(firstDue);
    return {
      pauses: all,
      circuit: this.#own.circuit(),
      sizes: { queued: ready, running, timers: timed, failing: failed, backlog: inBacklog, dead: deadLetters },
      low,
      started,
      demand,
      firstDueMs,
      oldestDueMs: firstDueMs > nowMs ? undefined : nowMs - firstDueMs,
    };
  }

  async allLevels(): ReturnType<QueueInspector['allLevels']> {
    const [levels, { total }] = await Promise.all([this.levels(), this.list('waiting', { offset: 0, limit: 0 })]);
    const { dead, ...others } = levels.sizes;
    // In the order of `KEY_LISTS`, in which people are shown them.
    return { ...levels, sizes: { ...others, waiting: total, dead } };
  }

  /** The bytes that the queue's keys take in Redis, about. */
  async weigh(): Promise<number> {
    return Number(await this.#weigh(this.#keys.script, []));
  }

  async list(list: KeyList, { offset, limit }: { offset: number; limit: number }): Promise<KeyPage> {
    const { queued, timers, inFlight, backlog, dead, failing } = this.#keys;
    switch (list) {
      case 'queued':
        return this.#sorted([queued], offset, limit);
      case 'running':
        return this.#sorted([inFlight], offset, limit);
      case 'timers':
        return this.#sorted([timers], offset, limit);
      case 'failing':
        return this.#sorted([failing], offset, limit);
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

function pairsOf(found: readonly string[]): KeyPage['keys'][number][] {
  return found.flatMap((key, at) => (at % 2 === 0 ? [{ key, atMs: Math.floor(Number(found[at + 1])) }] : []));
}
