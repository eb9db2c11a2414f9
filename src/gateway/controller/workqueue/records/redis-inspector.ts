import { type Clock, systemClock } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { decodeReasons } from './redis-records.ts';
import {
  type Pause,
  type PauseScope,
  type KeyList,
  type KeyPage,
  type KeyStatus,
  type Wait,
  waitFor,
} from '../key-status.ts';
import { type QueueKeys, scopesOf, waitingIn } from '../queue-keys.ts';
import { DEMAND_AHEAD_MS, MOST_PAUSES, type QueueInspector, type QueueLevels } from '../work-queue.ts';

/** The state of this gateway that Redis does not have. */
export interface OwnView {
  readonly clock: Pick<Clock, 'now'>;
  readonly passed: (barrier: string) => Promise<boolean>;
}

/** Pauses in one page of `pauses`, about. */
const PAUSES_PAGE = 500;
/** Pauses that persons and recovery have set, the latest ends first: keys of the namespaces among them are listed. */
const MOST_LISTED = 1000;

const NOTHING: OwnView = { clock: systemClock, passed: async () => false };

/** Reads the records in Redis for the commands and the metrics. */
export class RedisInspector implements QueueInspector {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #levels: Script;
  readonly #weigh: Script;
  readonly #own: OwnView;

  /** @param own Default: no barrier is known to have passed. */
  constructor(redis: Redis, keys: QueueKeys, own: OwnView = NOTHING) {
    this.#own = own;
    this.#redis = redis;
    this.#keys = keys;
    this.#levels = loadScript(redis, import.meta.url, 'levels');
    this.#weigh = loadScript(redis, import.meta.url, 'weigh-keys');
  }

  async status(key: string): Promise<KeyStatus> {
    const { recordPrefix, timers, backlog, debounced, queued } = this.#keys;
    const scopes = scopesOf(key);
    const [record, timer, low, added, scopePauses, ready, ...paused] = await Promise.all([
      this.#redis.hgetall(recordPrefix + key),
      this.#redis.zscore(timers, key),
      this.#redis.zscore(backlog, key),
      this.#redis.zscore(debounced, key),
      this.#pausesOf(scopes),
      this.#redis.zscore(queued, key),
      ...scopes.map((scope) => this.#redis.zscore(waitingIn(this.#keys, scope), key)),
    ]);
    const {
      run,
      deadline,
      busy,
      dirty,
      failures,
      dead,
      queuedAt,
      reasons = '',
      unsent = '',
      barrier,
      barrierAt,
      tokenAt,
    } = record;
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
      reasons: [unsent, reasons].flatMap(decodeReasons),
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
      const sinceText = since[at] ?? undefined;
      return sinceText === undefined ? undefined : decodePause(scope, sinceText, ends[at] ?? undefined);
    });
  }

  async pauses(after = '0'): ReturnType<QueueInspector['pauses']> {
    const { pauses, pauseEnds } = this.#keys;
    const [next, found] = await this.#redis.hscan(pauses, after, 'COUNT', PAUSES_PAGE);
    const scopes = found.filter((_, at) => at % 2 === 0) as PauseScope[];
    const ends = scopes.length === 0 ? [] : await this.#redis.zmscore(pauseEnds, ...scopes);
    return {
      pauses: scopes.map((scope, at) => decodePause(scope, found[2 * at + 1] ?? '', ends[at] ?? undefined)),
      ...(next === '0' ? {} : { next }),
    };
  }

  async levels(): Promise<QueueLevels> {
    const nowMs = this.#own.clock.now();
    const args = [nowMs + DEMAND_AHEAD_MS, MOST_PAUSES, MOST_LISTED];
    const answer = (await this.#levels(this.#keys.script, args)) as LevelsAnswer;
    const [sizes, low, started, demand, firstDue, failingSince, allPauses, setByHand, firstEnd, listed] = answer;
    const [ready = 0, running = 0, timed = 0, failed = 0, inBacklog = 0, waiting = 0, dead = 0] = sizes;
    const [firstDueMs, failingSinceMs] = [timeOf(firstDue), timeOf(failingSince)];
    const pauses: Pause[] = [];
    for (let at = 0; at < listed.length; at += 3) {
      pauses.push(decodePause(listed[at] as PauseScope, listed[at + 1] ?? '', listed[at + 2]));
    }
    return {
      pauses,
      morePauses: Math.max(0, setByHand - pauses.length),
      pausedObjects: Math.max(0, allPauses - setByHand),
      pauseEndMs: timeOf(firstEnd),
      sizes: { queued: ready, running, timers: timed, failing: failed, backlog: inBacklog, waiting, dead },
      low,
      started,
      demand,
      firstDueMs,
      oldestDueMs: firstDueMs > nowMs ? undefined : nowMs - firstDueMs,
      oldestFailingMs: failingSinceMs === Infinity ? undefined : Math.max(0, nowMs - failingSinceMs),
    };
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
      case 'waiting':
        return this.#sorted(await this.#waitingSets(), offset, limit);
    }
  }

  /** The sets of the keys that wait for the end of a debounce or a pause, as `levels` counts them. */
  async #waitingSets(): Promise<string[]> {
    const { debounced, pausedPrefix, pauseEnds } = this.#keys;
    const scopes = await this.#redis.zrevrange(pauseEnds, 0, MOST_LISTED - 1);
    const namespaces = scopes.filter((scope) => scope.startsWith('namespace/'));
    const paused = ['controller', 'recovery', 'key', 'object', ...namespaces];
    return [debounced, ...paused.map((each) => pausedPrefix + each)];
  }

  /** Pages through several sets, one after the other. */
  async #sorted(sets: readonly string[], offset: number, limit: number): Promise<KeyPage> {
    const sizes = await Promise.all(sets.map((set) => this.#redis.zcard(set)));
    const keys: { key: string; atMs: number }[] = [];
    let total = 0;
    for (const [at, set] of sets.entries()) {
      const size = sizes[at] ?? 0;
      const from = Math.max(0, offset - total);
      total += size;
      if (keys.length >= limit || from >= size) continue;
      const found = await this.#redis.zrange(set, `${from}`, `${from + limit - keys.length - 1}`, 'WITHSCORES');
      keys.push(...pairsOf(found));
    }
    return { total, keys };
  }
}

/** As `levels.lua` has it. */
type LevelsAnswer = [
  sizes: readonly number[],
  low: number,
  started: number,
  demand: number,
  firstDue: string,
  failingSince: string,
  pauses: number,
  setByHand: number,
  firstEnd: string,
  listed: readonly string[],
];

const timeOf = (text: string): number => (text === '' ? Infinity : Number(text));

/** @param end its score in `pauseEnds`; '' or undefined: it has none. */
function decodePause(scope: PauseScope, since: string, end = ''): Pause {
  const untilMs = end === '' || end === 'inf' ? {} : { untilMs: Number(end) };
  return { scope, sinceMs: Number(since), ...untilMs };
}

function pairsOf(found: readonly string[]): KeyPage['keys'][number][] {
  return found.flatMap((key, at) => (at % 2 === 0 ? [{ key, atMs: Math.floor(Number(found[at + 1])) }] : []));
}
