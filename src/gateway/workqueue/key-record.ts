import type { Reason } from '../../contract/index.ts';
import { loadScript, type Redis, type Script } from '../cache/redis.ts';
import type { QueueKeys } from './queue-keys.ts';
import type { BarrierText, Finish, LowReason, QueuedKey } from './work-queue.ts';

/** The answer of the start script. */
export type Start =
  | {
      readonly kind: 'go';
      readonly run: number;
      readonly failures: number;
      readonly reasons: readonly Reason[];
      /** When the key was first added since its last start; undefined when a timer alone brought it here. */
      readonly queuedAtMs: number | undefined;
    }
  | { readonly kind: 'busy' }
  | { readonly kind: 'lost'; readonly run: number; readonly failures: number }
  | { readonly kind: 'barrier'; readonly barrier: BarrierText };

export interface DueTimer {
  readonly key: string;
  readonly score: string;
  readonly barrier: BarrierText | undefined;
  readonly barrierAtMs: number;
}

export interface Scored {
  readonly key: string;
  readonly score: string;
}

/** After its deadline a run in flight blocks its key for this long: writes it sent in time are settled by then. */
export const FLIGHT_MARGIN_MS = 1000;

/** The scripts around the key records of one queue, with their arguments and answers as types. */
export class KeyRecords {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #scripts: Record<'note' | 'start' | 'finish' | 'due' | 'postpone', Script>;

  constructor(redis: Redis, keys: QueueKeys) {
    this.#redis = redis;
    this.#keys = keys;
    const load = (name: string): Script => loadScript(redis, import.meta.url, name);
    this.#scripts = {
      note: load('note'),
      start: load('start'),
      finish: load('finish'),
      due: load('due'),
      postpone: load('postpone'),
    };
  }

  async note(keys: readonly QueuedKey[], nowMs: number): Promise<void> {
    const args: (string | number)[] = [nowMs];
    for (const { key, reasons } of keys) args.push(key, reasons.map((reason) => JSON.stringify(reason)).join('\n'));
    await this.#scripts.note([this.#keys.recordPrefix], args);
  }

  async start(
    key: string,
    at: { nowMs: number; deadlineMs: number; nonce: string; passedBarrier?: BarrierText },
  ): Promise<Start> {
    const { timers, flights, backlog, runs, queue } = this.#keys;
    const answer = (await this.#scripts.start(
      [this.#record(key), timers, flights, backlog, runs, queue],
      [key, at.nowMs, at.deadlineMs, FLIGHT_MARGIN_MS, at.nonce, at.passedBarrier ?? ''],
    )) as [string, ...unknown[]];
    switch (answer[0]) {
      case 'go': {
        const [, run, failures, noted, queuedAt, low] = answer as [
          string,
          number,
          number,
          string,
          string,
          LowReason | '',
        ];
        const reasons = reasonsFrom(noted, { low: low || undefined, failures });
        return { kind: 'go', run, failures, reasons, queuedAtMs: queuedAt ? Number(queuedAt) : undefined };
      }
      case 'lost':
        return { kind: 'lost', run: answer[1] as number, failures: answer[2] as number };
      case 'barrier':
        return { kind: 'barrier', barrier: answer[1] as string };
      default:
        return { kind: 'busy' };
    }
  }

  /** @returns whether the run was the one in flight; if not, nothing was changed. */
  async finish(key: string, run: number, finish: Finish & { kind: 'known' }, nowMs: number): Promise<boolean> {
    const again = finish.againAfterMs === undefined ? '' : Math.round(nowMs + finish.againAfterMs);
    const answer = await this.#scripts.finish(
      [this.#record(key), this.#keys.timers, this.#keys.flights],
      [key, run, nowMs, finish.failures, again, finish.barrier ?? ''],
    );
    return answer === 1;
  }

  async due(
    nowMs: number,
    limit: number,
    room: number,
  ): Promise<{ timers: DueTimer[]; flights: Scored[]; backlog: Scored[] }> {
    const { timers, flights, backlog, waiting, recordPrefix } = this.#keys;
    const answer = await this.#scripts.due([timers, flights, backlog, waiting, recordPrefix], [nowMs, limit, room]);
    const [due, expired, low] = answer as [string[], string[], string[]];
    const dueTimers: DueTimer[] = [];
    for (let at = 0; at < due.length; at += 4) {
      const [key = '', score = '', barrier = '', barrierAt = ''] = due.slice(at, at + 4);
      dueTimers.push({ key, score, barrier: barrier || undefined, barrierAtMs: Number(barrierAt || 0) });
    }
    return { timers: dueTimers, flights: pairs(expired), backlog: pairs(low) };
  }

  /** Moves each score to `toMs` unless it has changed since it was read. */
  async postpone(set: 'timers' | 'flights' | 'backlog', toMs: number, entries: readonly Scored[]): Promise<void> {
    if (entries.length === 0) return;
    const args = entries.flatMap(({ key, score }) => [key, score]);
    await this.#scripts.postpone([this.#keys[set]], [toMs, ...args]);
  }

  /** Earliest time wins. */
  async addTimer(key: string, atMs: number): Promise<void> {
    await this.#redis.zadd(this.#keys.timers, 'LT', atMs, key);
  }

  async addToBacklog(keys: readonly string[], nowMs: number, reason: LowReason): Promise<void> {
    if (keys.length === 0) return;
    // One reason for all: it is for people, and a note on each of many thousand records is not worth that.
    await this.#redis
      .pipeline()
      .hset(this.#keys.queue, 'lowReason', reason)
      .zadd(this.#keys.backlog, 'LT', ...keys.flatMap((key) => [nowMs, key]))
      .exec();
  }

  running(): Promise<number> {
    return this.#redis.zcard(this.#keys.flights);
  }

  #record(key: string): string {
    return this.#keys.recordPrefix + key;
  }
}

/** A run that no add gave a reason for comes from the backlog or from a timer, which the last outcome has set. */
function reasonsFrom(noted: string, run: { low: LowReason | undefined; failures: number }): Reason[] {
  if (noted) return noted.split('\n').map((line) => JSON.parse(line) as Reason);
  return [{ type: run.low ?? (run.failures > 0 ? 'retry' : 'requeue') }];
}

function pairs(flat: readonly string[]): Scored[] {
  const found: Scored[] = [];
  for (let at = 0; at < flat.length; at += 2) found.push({ key: flat[at] ?? '', score: flat[at + 1] ?? '' });
  return found;
}
