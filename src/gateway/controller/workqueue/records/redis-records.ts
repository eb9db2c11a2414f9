import { hostname } from 'node:os';
import { textWithin } from '../../../../core/index.ts';
import type { Reason } from '../../../../contract/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import type { QueueKeys } from '../queue-keys.ts';
import {
  BARRIER_AGAIN_MS,
  BUSIES_MS,
  type Debounce,
  ERROR_BYTES,
  RUN_MARGIN_MS,
  SLOT_MS,
  HISTORY_LENGTH,
  HISTORY_MS,
  type QueueOptions,
} from '../queue-options.ts';
import type { OwnRuns, RecordedRuns } from './own-runs.ts';
import { encodeRun } from '../history/past-run.ts';
import {
  type Busies,
  type Due,
  type DueTimer,
  type Finished,
  type FinishRequest,
  type LowRequest,
  type PostponedSet,
  type RecordedAdds,
  reasonsOrDefault,
  type IdleKey,
  type Scored,
  type Start,
  type StartRequest,
  type Starts,
  type StartTimes,
} from './records.ts';
import type { PauseScope, LowReason, PausedState, QueuedKey } from '../work-queue.ts';

const SCRIPTS = ['add', 'start', 'finish', 'due', 'wake', 'postpone', 'resume', 'drop', 'forget', 'put-back'] as const;
/** Keys that one script moves or writes, because a large script blocks Redis. */
const PAGE = 500;
/** Barriers that are read at once, and characters after which no more are read. A barrier has 32 KiB at most. */
const BARRIERS_AT_ONCE = 16;
const BARRIERS_CHARACTERS = 256 * 1024;
/** Characters of the reasons in a record, as in `add.lua`. */
const REASONS_LENGTH = 2048;
type Scripts = Record<(typeof SCRIPTS)[number], Script>;

/**
 * The records of the keys of one queue in Redis, shared by its gateways. Each method is one atomic step, usually a
 * script, and may be repeated. The Lua files describe the steps.
 */
export class RedisRecords {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #debounce: Debounce | undefined;
  readonly #limits: readonly [msPerToken: number, burst: number, maxAttempts: number];
  readonly #concurrency: number;
  readonly #owner: string;
  readonly #isLeftOut: () => boolean;
  /** The name of this gateway in the history of runs. */
  readonly #gateway = JSON.stringify(hostname());
  readonly #scripts: Scripts;

  /** @param isLeftOut whether Redis has no memory for past outcomes now. Default: it has. */
  constructor(
    redis: Redis,
    keys: QueueKeys,
    options: Pick<QueueOptions, 'concurrency' | 'debounce' | 'rateLimit' | 'maxAttempts'>,
    owner = '',
    isLeftOut = (): boolean => false,
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.#debounce = options.debounce;
    this.#concurrency = options.concurrency;
    this.#owner = owner;
    this.#isLeftOut = isLeftOut;
    const { rateLimit, maxAttempts = 0 } = options;
    this.#limits = [rateLimit ? 1000 / rateLimit.perSecond : 0, rateLimit?.burst ?? 0, maxAttempts];
    const load = (name: string): Script => loadScript(redis, import.meta.url, name);
    this.#scripts = Object.fromEntries(SCRIPTS.map((name) => [name, load(name)])) as Scripts;
  }

  /**
   * Records the add of keys.
   * @returns the keys that became ready to run, and when the first debounced key may; the other keys wait or run
   *   already. `changed`: the keys whose pause has begun or ended.
   */
  async recordAdds(keys: readonly QueuedKey[], nowMs: number): Promise<RecordedAdds> {
    const { windowMs = 0, maxMs = 0, leading = false } = this.#debounce ?? {};
    const args: (string | number)[] = [nowMs, windowMs, maxMs, leading ? '1' : ''];
    for (const { key, reasons, paused, atMs = nowMs } of keys) {
      args.push(key, encodeReasons(reasons));
      args.push(paused === undefined ? '' : paused ? '1' : '0', Math.min(atMs, nowMs));
    }
    const answer = await this.#scripts.add(this.#keys.script, args);
    const [due, ready, changed] = answer as [number | '', number[], number[]];
    const keysAt = (places: readonly number[]): string[] => places.map((at) => keys[at]?.key ?? '');
    return { ready: keysAt(ready), dueMs: due === '' ? undefined : due, changed: keysAt(changed) };
  }

  async startAll(requests: readonly StartRequest[], at: StartTimes, lows?: LowRequest): Promise<Starts> {
    const [msPerToken, burst] = this.#limits;
    const { count = 0, first = 0, nonce = '', gateway = '' } = lows ?? {};
    const args: (string | number)[] = [
      at.nowMs,
      at.deadlineMs,
      RUN_MARGIN_MS,
      BARRIER_AGAIN_MS.first,
      msPerToken,
      burst,
    ];
    args.push(at.slots ?? this.#concurrency, at.slotMs, count, first, nonce, this.#owner, HISTORY_MS, gateway);
    for (const request of requests) args.push(request.key, request.nonce, request.passedBarrier ?? '');
    const answer = (await this.#scripts.start(this.#keys.script, args)) as
      [StartAnswer[], (string | StartAnswer)[], number, string] | 'foreign';
    if (answer === 'foreign') return { starts: [], low: [], lowLeft: false, isForeign: true };
    const [answers, taken, lowLeft, incarnation] = answer;
    const low: { key: string; start: Start }[] = [];
    for (let each = 0; each < taken.length; each += 2) {
      low.push({ key: taken[each] as string, start: decodeStart(taken[each + 1] as StartAnswer, incarnation) });
    }
    return { starts: answers.map((each) => decodeStart(each, incarnation)), low, lowLeft: lowLeft === 1 };
  }

  /** Removes the last answer to a gateway that starts no more keys (see `takenPrefix`). */
  async forgetTaken(gateway: string): Promise<void> {
    await this.#redis.unlink(`${this.#keys.takenPrefix}${gateway}`);
  }

  /** Extends the slots of runs that go on. */
  async prolongSlots(slots: readonly { key: string; untilMs: number }[]): Promise<void> {
    if (slots.length === 0) return;
    await this.#redis.zadd(this.#keys.slots, 'XX', ...slots.flatMap(({ key, untilMs }) => [untilMs, key]));
  }

  /** @param own this gateway's count of busy runs. Default: none has become busy. */
  async finishAll(requests: readonly FinishRequest[], nowMs: number, own: Busies = NO_BUSIES): Promise<Finished[]> {
    const each = requests.flatMap((request) => {
      const { key, run, nonce = '', reasons = [] } = request;
      return [
        key,
        run,
        ...this.#finishArguments(request, nowMs),
        nonce,
        encodeReasons(
          reasons.filter((reason) => !isDefault(reason)),
          REASONS_LENGTH,
        ),
      ];
    });
    const limits = [RUN_MARGIN_MS, this.#limits[2], HISTORY_LENGTH, HISTORY_MS];
    const args = [nowMs, ...limits, own.busies, BUSIES_MS, own.id, ...each];
    const answers = (await this.#scripts.finish(this.#keys.script, args)) as [number, string, number][];
    return answers.map(([code, timer, ready]) => ({
      current: code > 0,
      dead: code === 2,
      timerMs: timer && code > 0 ? Number(timer) : undefined,
      ready: ready === 1,
      unreadable: code < 0 ? timer : undefined,
    }));
  }

  #finishArguments({ finish, ended }: FinishRequest, nowMs: number): (string | number)[] {
    if (finish.kind === 'accepted') return ['busy', Math.ceil(finish.untilMs), '', '', ''];
    if (finish.kind === 'unknown') return ['unknown', '', '', textWithin(finish.error ?? '', ERROR_BYTES), ''];
    const { failures, againAfterMs, barrier = '', dead = false } = finish;
    const again = againAfterMs === undefined ? '' : Math.ceil(nowMs + againAfterMs);
    const followsFailure = ended && (ended.attempt !== 1 || ended.hasFailed);
    const isOne =
      ended && !this.#isLeftOut() && (followsFailure || failures === 'count' || finish.error !== undefined || dead);
    return [failures, again, barrier, isOne ? encodeRun(ended, this.#gateway) : '', dead ? '1' : ''];
  }

  /** @param limit the most entries of each set. */
  async due(nowMs: number, limit: number): Promise<Due> {
    const answer = await this.#scripts.due(this.#keys.script, [nowMs, limit]);
    const [due, added, expired, ends, ...numbers] = answer as [string[], string[], string[], string[], ...unknown[]];
    const [next, low, ready, failing, deadLetters, paused] = numbers as [
      string,
      number,
      number,
      number,
      number,
      number,
    ];
    const dueTimers: DueTimer[] = [];
    for (let at = 0; at < due.length; at += 4) {
      const [key = '', score = '', barrier = '', barrierAt = ''] = due.slice(at, at + 4);
      dueTimers.push({ key, score, barrier: barrier || undefined, barrierAtMs: Number(barrierAt || 0) });
    }
    return {
      timers: dueTimers,
      debounced: pairs(added),
      inFlight: pairs(expired),
      backlog: low,
      sizes: { queued: ready, failing, dead: deadLetters },
      pauses: paused,
      pauseEnds: pairs(ends),
      nextMs: next ? Number(next) : undefined,
    };
  }

  /**
   * Makes keys ready whose time has come, unless their time has changed since it was read. Until a key starts, it stays
   * in the set with the time `againMs`.
   * @returns the keys that became ready to run. The other keys wait or run already.
   */
  async wake(set: 'timers' | 'debounced', againMs: number, entries: readonly Scored[]): Promise<string[]> {
    if (entries.length === 0) return [];
    return this.#move(this.#scripts.wake, [this.#keys[set], this.#keys.prefix], { toMs: againMs, entries });
  }

  /** Sets the scores that are still as they were read. @returns their keys. */
  async postpone(set: PostponedSet, toMs: number, entries: readonly Scored[]): Promise<string[]> {
    if (entries.length === 0) return [];
    return this.#move(this.#scripts.postpone, [this.#keys[set]], { toMs, entries });
  }

  async #move(
    script: Script,
    keys: readonly string[],
    { toMs, entries }: { toMs: number; entries: readonly Scored[] },
  ): Promise<string[]> {
    const args = entries.flatMap(({ key, score }) => [key, score]);
    const places = (await script(keys, [toMs, ...args])) as number[];
    return places.map((at) => entries[at]?.key ?? '');
  }

  /**
   * One page of the keys that were ready before `atMs` and have not started. Begin with cursor '0' and end when '0' is
   * returned: every key that stayed in the set has then been in a page.
   */
  async queuedBefore(atMs: number, cursor: string, limit: number): Promise<{ keys: string[]; cursor: string }> {
    const [next, found] = await this.#redis.zscan(this.#keys.queued, cursor, 'COUNT', limit);
    const keys = pairs(found).flatMap(({ key, score }) => (Number(score) <= atMs ? [key] : []));
    return { keys, cursor: next };
  }

  /** Postpones due timers of keys that wait for their barriers, and records since when each key waits. */
  async hold(toMs: number, entries: readonly Scored[]): Promise<void> {
    if (entries.length === 0) return;
    const { timers, recordPrefix } = this.#keys;
    await this.#move(this.#scripts.postpone, [timers, recordPrefix], { toMs, entries });
  }

  /**
   * Keys at rest whose last run was before `atMs`. Their records have nothing but a barrier. Long barriers fill an
   * answer before the limit: there are no more keys only when it is empty.
   */
  async idleBefore(atMs: number, limit: number): Promise<IdleKey[]> {
    const { idle, recordPrefix } = this.#keys;
    const found = await this.#redis.zrangebyscore(idle, '-inf', atMs, 'WITHSCORES', 'LIMIT', 0, limit);
    const keys = pairs(found);
    const read: IdleKey[] = [];
    for (let characters = 0; read.length < keys.length && characters < BARRIERS_CHARACTERS;) {
      const some = keys.slice(read.length, read.length + BARRIERS_AT_ONCE);
      const barriers = await Promise.all(some.map(({ key }) => this.#redis.hget(recordPrefix + key, 'barrier')));
      for (const [at, each] of some.entries()) {
        const barrier = barriers[at] ?? undefined;
        read.push({ ...each, barrier });
        characters += barrier?.length ?? 0;
      }
    }
    return read;
  }

  async runsOf(keys: readonly string[]): Promise<RecordedRuns> {
    const { queue, recordPrefix } = this.#keys;
    // Sent in this order, on one connection.
    const reads = keys.map((key) => this.#redis.hget(recordPrefix + key, 'run'));
    const last = this.#redis.hget(queue, 'incarnation');
    const [incarnation, ...runs] = await Promise.all([last, ...reads]);
    return { incarnation: incarnation ?? undefined, runs: runs.map((run) => (run === null ? undefined : Number(run))) };
  }

  /**
   * Puts runs in flight of one gateway back on record. Run numbers go on from its highest. Does nothing where the queue
   * is in order on Redis process `runId`.
   */
  async putBack(own: OwnRuns, { runId, nowMs }: { runId: string; nowMs: number }): Promise<void> {
    const each = own
      .inFlight(nowMs)
      .map(({ key, run, deadlineMs, state, busies = 0 }) => [key, run, Math.ceil(deadlineMs), state, busies]);
    for (let from = 0; from === 0 || from < each.length; from += PAGE) {
      // Each page compares with the number of busy runs that Redis knew before, so only the last page reports the new
      // number.
      const busies = from + PAGE >= each.length ? own.busies : 0;
      const args = [runId, RUN_MARGIN_MS, nowMs + SLOT_MS, own.highest, busies, BUSIES_MS, own.id];
      await this.#scripts['put-back'](this.#keys.script, [...args, ...each.slice(from, from + PAGE).flat()]);
    }
  }

  /** Deletes the records of keys that are still at rest and still have these barriers, which have passed. */
  async forgetBarriers(passed: readonly IdleKey[]): Promise<void> {
    if (passed.length === 0) return;
    await this.#scripts.forget(
      this.#keys.script,
      passed.flatMap(({ key, barrier = '' }) => [key, barrier]),
    );
  }

  /** Sets a key's timer. The earliest time wins. */
  async addTimer(key: string, atMs: number): Promise<void> {
    await this.#redis.zadd(this.#keys.timers, 'LT', atMs, key);
  }

  async addToBacklog(keys: readonly string[], nowMs: number, reason: LowReason): Promise<void> {
    if (keys.length === 0) return;
    // One reason for all keys: it is for people, and many thousand records would cost too much.
    await this.#redis
      .pipeline()
      .hset(this.#keys.queue, 'lowReason', reason)
      .zadd(this.#keys.backlog, 'LT', ...keys.flatMap((key) => [nowMs, key]))
      .exec();
  }

  /** Begins or ends the pauses of objects. @returns the keys whose pause has begun or ended. */
  async pauseObjects(states: readonly PausedState[], sinceMs: number): Promise<string[]> {
    const changed = await Promise.all(
      states.map(async ({ key, paused }) => {
        const scope = `object/${key}`;
        return paused ? (await this.#redis.hsetnx(this.#keys.pauses, scope, sinceMs)) === 1 : this.resume(scope);
      }),
    );
    return states.flatMap(({ key }, at) => (changed[at] ? [key] : []));
  }

  /** @returns whether the scope was not paused before. */
  async pause(scope: PauseScope, sinceMs: number, untilMs: number | undefined): Promise<boolean> {
    const step = this.#redis.multi().hset(this.#keys.pauses, scope, sinceMs);
    if (!scope.startsWith('object/')) step.zadd(this.#keys.pauseEnds, untilMs ?? '+inf', scope);
    const [set] = (await step.exec()) ?? [];
    return set?.[1] === 1;
  }

  /**
   * @param onlyIfEnds the end of the pause as it was read: a pause with another end stays. Default: the pause is ended
   *   whatever its end is.
   * @returns whether there was such a pause.
   */
  async resume(scope: string, onlyIfEnds = ''): Promise<boolean> {
    let wasPaused = false;
    // The first call ends the pause and sets its end to 0 while keys are left; the other calls name this end.
    for (let ends = onlyIfEnds; ; ends = '0') {
      const [left, ended] = (await this.#scripts.resume(this.#keys.script, [scope, ends, PAGE])) as [number, number];
      wasPaused ||= ended === 1;
      if (left === 0) return wasPaused;
    }
  }

  async drop(keys: readonly string[], nowMs: number): Promise<number> {
    if (keys.length === 0) return 0;
    return (await this.#scripts.drop(this.#keys.script, [nowMs, ...keys])) as number;
  }
}

const NO_BUSIES: Busies = { id: '', busies: 0 };

type StartAnswer = [string, ...unknown[]];

function decodeStart(answer: StartAnswer, incarnation: string): Start {
  const [kind, first, second, third] = answer;
  switch (kind) {
    case 'go': {
      const [, run, failures, added, queuedAt, low, heldAt, failed, unsent] = answer as [
        string,
        number,
        number,
        string,
        string,
        LowReason | '',
        string,
        string,
        string,
      ];
      // Where Redis has lost the start of the run that was not sent, its reasons are on record twice.
      const given = added.startsWith(unsent) ? [] : decodeReasons(unsent);
      const reasons = reasonsOrDefault([...given, ...decodeReasons(added)], { low: low || undefined, failures });
      const recorded = unsent === '' ? added : '';
      const queuedAtMs = queuedAt ? Number(queuedAt) : undefined;
      const heldAtMs = heldAt ? Number(heldAt) : undefined;
      return { kind, run, incarnation, failures, reasons, queuedAtMs, heldAtMs, recorded, hasFailed: failed === '1' };
    }
    case 'lost':
      return { kind, run: first as number, failures: second as number, error: (third as string) || undefined };
    case 'barrier':
      return { kind, barrier: first as string };
    case 'refused':
      return { kind, error: first as string };
    case 'limited':
      return { kind, untilMs: Number(first) };
    case 'paused':
    case 'idle':
    case 'full':
      return { kind };
    default:
      return { kind: 'busy' };
  }
}

/** Whether the next start would make it again (`reasonsOrDefault`). */
function isDefault({ type, message }: Reason): boolean {
  return (type === 'retry' || type === 'requeue') && message === undefined;
}

/**
 * As a key's record has them: see `decodeReasons`.
 * @param most characters: the newest that have no room are left out. Default: all have.
 */
function encodeReasons(reasons: readonly Reason[], most = Infinity): string {
  let text = '';
  for (const reason of reasons) {
    const line = JSON.stringify(reason);
    if (text.length + line.length > most) break;
    text += text === '' ? line : `\n${line}`;
  }
  return text;
}

/** The reasons of a key's record. */
export function decodeReasons(text: string): Reason[] {
  return text === '' ? [] : text.split('\n').flatMap(decodeReason);
}

/** Reasons are for people: a reason that cannot be decoded must not stop its key. */
function decodeReason(line: string): Reason[] {
  try {
    return [JSON.parse(line) as Reason];
  } catch {
    return [];
  }
}

function pairs(flat: readonly string[]): Scored[] {
  const found: Scored[] = [];
  for (let at = 0; at < flat.length; at += 2) found.push({ key: flat[at] ?? '', score: flat[at + 1] ?? '' });
  return found;
}
