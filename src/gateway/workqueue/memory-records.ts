import type { MemoryRecord, MemoryStore } from './memory-store.ts';
import { TimeSet } from './memory-store.ts';
import { scopesOf } from './queue-keys.ts';
import { BARRIER_AGAIN_MS, ERROR_LENGTH, RUN_MARGIN_MS, HISTORY_LENGTH, type QueueOptions } from './queue-options.ts';
import {
  type Due,
  type Finished,
  type FinishRequest,
  type PostponedSet,
  reasonsOr,
  type Records,
  type Resting,
  type Scored,
  type Start,
  type StartRequest,
} from './records.ts';
import type { Known } from './run.ts';
import type { HoldScope, LowReason, QueuedKey } from './work-queue.ts';

const REASONS_LENGTH = 2048;

/** The records in memory: step for step what the scripts do in Redis. */
export class MemoryRecords implements Records {
  readonly #store: MemoryStore;
  readonly #options: Pick<QueueOptions, 'debounce' | 'rateLimit' | 'maxAttempts'>;

  constructor(store: MemoryStore, options: Pick<QueueOptions, 'debounce' | 'rateLimit' | 'maxAttempts'>) {
    this.#store = store;
    this.#options = options;
  }

  async note(keys: readonly QueuedKey[], nowMs: number): Promise<void> {
    const { debounce } = this.#options;
    for (const { key, reasons, paused } of keys) {
      const record = this.#store.record(key);
      record.queuedAtMs ??= nowMs;
      if (JSON.stringify([...record.reasons, ...reasons]).length < REASONS_LENGTH) record.reasons.push(...reasons);
      if (debounce) {
        this.#store.debounced.set(key, Math.min(nowMs + debounce.windowMs, record.queuedAtMs + debounce.maxMs));
      } else if (!record.running) {
        this.#store.queued.lower(key, nowMs);
      }
      const scope: HoldScope = `object/${key}`;
      if (paused === true && !this.#store.holds.has(scope)) await this.hold(scope, nowMs, undefined);
      if (paused === false) {
        this.#store.holds.delete(scope);
        this.#store.held.delete(scope);
      }
    }
  }

  async startAll(
    requests: readonly StartRequest[],
    at: { readonly nowMs: number; readonly deadlineMs: number },
  ): Promise<Start[]> {
    return requests.map((request) => {
      const start = this.#start(request, at);
      this.#store.queued.delete(request.key);
      return start;
    });
  }

  async finishAll(requests: readonly FinishRequest[], nowMs: number): Promise<Finished[]> {
    return requests.map((request) => this.#finish(request, nowMs));
  }

  async due(nowMs: number, limit: number, room: number): Promise<Due> {
    const { timers, debounced, inFlight, backlog, holds, waiting, records } = this.#store;
    let nextMs = Infinity;
    const dueOf = (set: TimeSet, count: number): Scored[] => {
      const ordered = set.ordered();
      nextMs = Math.min(nextMs, ordered.find(([, atMs]) => atMs > nowMs)?.[1] ?? Infinity);
      const due = ordered.filter(([, atMs]) => atMs <= nowMs).slice(0, count);
      return due.map(([key, atMs]) => ({ key, score: String(atMs) }));
    };
    const ends = new TimeSet(
      [...holds.values()].flatMap(({ scope, untilMs = Infinity }) => [[scope, untilMs] as const]),
    );
    this.#park(nowMs);
    const take = Math.max(Math.min(room, 1000) - waiting.size, 1);
    const found = {
      timers: dueOf(timers, limit).map((timer) => {
        const barrier = records.get(timer.key)?.barrier;
        return { ...timer, barrier: barrier?.text, barrierAtMs: barrier?.atMs ?? 0 };
      }),
      debounced: dueOf(debounced, limit),
      inFlight: dueOf(inFlight, limit),
      backlog: dueOf(backlog, take),
      holds: dueOf(ends, limit),
    };
    const backlogLeft = found.backlog.length === take;
    return { ...found, nextMs: nextMs === Infinity ? undefined : nextMs, backlogLeft };
  }

  async postpone(name: PostponedSet, toMs: number, entries: readonly Scored[], added = false): Promise<void> {
    const set = this.#store[name];
    for (const { key, score } of entries) {
      const atMs = set.get(key);
      if (atMs === undefined || atMs !== Number(score)) continue;
      set.set(key, toMs);
      if (added) {
        this.#store.record(key).queuedAtMs ??= Math.floor(atMs);
        this.#store.queued.lower(key, Math.floor(atMs));
      }
    }
  }

  async queuedBefore(atMs: number): Promise<{ keys: string[]; cursor: string }> {
    const keys = this.#store.queued.ordered().flatMap(([key, sinceMs]) => (sinceMs <= atMs ? [key] : []));
    return { keys, cursor: '0' };
  }

  async restingBefore(atMs: number, limit: number): Promise<Resting[]> {
    const due = this.#store.resting.ordered().filter(([, sinceMs]) => sinceMs <= atMs);
    return due.slice(0, limit).map(([key, sinceMs]) => {
      return { key, score: String(sinceMs), barrier: this.#store.records.get(key)?.barrier?.text };
    });
  }

  async forgetBarriers(passed: readonly Resting[]): Promise<void> {
    for (const { key, barrier } of passed) {
      const record = this.#store.record(key);
      if (record.barrier === undefined || record.barrier.text === barrier) {
        this.#store.resting.delete(key);
        const { running, queuedAtMs, deadSinceMs, tokenAtMs, failures } = record;
        const busy = running ?? queuedAtMs ?? deadSinceMs ?? tokenAtMs;
        if (busy === undefined && failures === 0) delete record.barrier;
      }
      this.#tidy(key);
    }
  }

  async addTimer(key: string, atMs: number): Promise<void> {
    this.#store.timers.lower(key, atMs);
  }

  async addToBacklog(keys: readonly string[], nowMs: number, reason: LowReason): Promise<void> {
    if (keys.length > 0) this.#store.lowReason = reason;
    for (const key of keys) this.#store.backlog.lower(key, nowMs);
  }

  async hold(scope: HoldScope, sinceMs: number, untilMs: number | undefined): Promise<void> {
    this.#store.holds.set(scope, { scope, sinceMs, ...(untilMs === undefined ? {} : { untilMs }) });
  }

  async release(scope: HoldScope, onlyIfEnds?: string): Promise<void> {
    const { holds, held, backlog } = this.#store;
    if (onlyIfEnds !== undefined && holds.get(scope)?.untilMs !== Number(onlyIfEnds)) return;
    holds.delete(scope);
    for (const [key, sinceMs] of held.get(scope) ?? []) backlog.lower(key, sinceMs);
    held.delete(scope);
  }

  async drop(keys: readonly string[], nowMs: number): Promise<number> {
    let dropped = 0;
    for (const key of keys) {
      if (!this.#store.dead.delete(key)) continue;
      const record = this.#store.record(key);
      delete record.deadSinceMs;
      record.failures = 0;
      record.history = [];
      if (record.barrier) this.#store.resting.set(key, nowMs);
      this.#tidy(key);
      dropped += 1;
    }
    return dropped;
  }

  async started(): Promise<number> {
    return this.#store.runs;
  }

  async running(): Promise<number> {
    return this.#store.inFlight.size;
  }

  /** Low keys that a hold covers wait for its release, and take no job to find that out. */
  #park(nowMs: number): void {
    const { backlog, holds, held } = this.#store;
    for (const [key, atMs] of holds.size > 0 ? backlog.ordered() : []) {
      const scope = scopesOf(key).find((each) => holds.has(each));
      if (scope === undefined || atMs > nowMs) continue;
      const keys = held.get(scope) ?? new TimeSet();
      held.set(scope, keys);
      keys.lower(key, atMs);
      backlog.delete(key);
    }
  }

  #start(
    { key, nonce, passedBarrier }: StartRequest,
    { nowMs, deadlineMs }: { nowMs: number; deadlineMs: number },
  ): Start {
    const { timers, backlog, debounced, inFlight, holds, held, dead } = this.#store;
    const record = this.#store.record(key);
    const { running, barrier, queuedAtMs } = record;
    if (running?.nonce === nonce) {
      running.deadlineMs = deadlineMs;
      inFlight.set(key, deadlineMs + RUN_MARGIN_MS);
      return { kind: 'go', run: running.run, failures: record.failures, reasons: [], queuedAtMs };
    }
    const lowAtMs = backlog.get(key);
    const timerMs = timers.get(key) ?? Infinity;
    const wanted = queuedAtMs !== undefined || lowAtMs !== undefined || timerMs <= nowMs || debounced.has(key);
    if (running && running.deadlineMs + RUN_MARGIN_MS <= nowMs) {
      record.dirty ||= wanted;
      return { kind: 'lost', run: running.run, failures: record.failures, error: running.error };
    }
    if (!wanted) {
      this.#tidy(key);
      return { kind: 'idle' };
    }
    const stopWaiting = (): void => {
      for (const set of [timers, backlog, debounced]) set.delete(key);
    };
    if (running) {
      record.dirty = true;
      stopWaiting();
      return { kind: 'busy' };
    }
    const scope = scopesOf(key).find((each) => holds.has(each));
    if (scope !== undefined) {
      const keys = held.get(scope) ?? new TimeSet();
      held.set(scope, keys);
      if (!keys.has(key)) keys.set(key, nowMs);
      stopWaiting();
      return { kind: 'held' };
    }
    if (barrier && barrier.text !== passedBarrier) {
      stopWaiting();
      timers.set(key, nowMs + BARRIER_AGAIN_MS);
      return { kind: 'barrier', barrier: barrier.text };
    }
    const tokenAtMs = this.#tokenAt(record, nowMs);
    if (tokenAtMs > nowMs) {
      stopWaiting();
      timers.set(key, tokenAtMs);
      return { kind: 'limited', untilMs: tokenAtMs };
    }
    stopWaiting();
    this.#store.resting.delete(key);
    if (record.deadSinceMs !== undefined) {
      dead.delete(key);
      record.failures = 0;
    }
    const { failures, history, reasons } = record;
    const run = (this.#store.runs += 1);
    const started: MemoryRecord = { dirty: false, failures, history, reasons: [] };
    started.running = { run, deadlineMs, nonce, busy: false };
    this.#store.records.set(key, started);
    inFlight.set(key, deadlineMs + RUN_MARGIN_MS);
    const low = lowAtMs === undefined ? undefined : this.#store.lowReason;
    const addedAtMs = queuedAtMs ?? (lowAtMs !== undefined && lowAtMs <= nowMs ? lowAtMs : undefined);
    return { kind: 'go', run, failures, reasons: reasonsOr(reasons, { low, failures }), queuedAtMs: addedAtMs };
  }

  /** A token is reserved for a key once, so a crowd does not ask again and again. */
  #tokenAt(record: MemoryRecord, nowMs: number): number {
    const { rateLimit } = this.#options;
    if (!rateLimit) return nowMs;
    if (record.tokenAtMs !== undefined) return record.tokenAtMs;
    const msPerToken = 1000 / rateLimit.perSecond;
    this.#store.fullAtMs = Math.max(nowMs, this.#store.fullAtMs) + msPerToken;
    const atMs = Math.ceil(this.#store.fullAtMs - rateLimit.burst * msPerToken);
    if (atMs > nowMs) record.tokenAtMs = atMs;
    return atMs;
  }

  #finish({ key, run, finish }: FinishRequest, nowMs: number): Finished {
    const { timers, inFlight, queued, debounced } = this.#store;
    const record = this.#store.record(key);
    if (record.running?.run !== run) {
      this.#tidy(key);
      return { current: false, dead: false, timerMs: undefined };
    }
    if (finish.kind === 'busy') {
      if (record.running.deadlineMs + RUN_MARGIN_MS <= nowMs) {
        return { current: false, dead: false, timerMs: undefined };
      }
      record.running.deadlineMs = Math.max(record.running.deadlineMs, Math.ceil(finish.untilMs));
      record.running.busy = true;
      inFlight.set(key, record.running.deadlineMs + RUN_MARGIN_MS);
      return { current: true, dead: false, timerMs: undefined };
    }
    if (finish.kind === 'unknown') {
      if (finish.error) record.running.error = finish.error.slice(0, ERROR_LENGTH);
      return { current: true, dead: false, timerMs: undefined };
    }
    delete record.running;
    inFlight.delete(key);
    const dead = this.#countFailures(key, record, finish, nowMs, run);
    const times = record.dirty ? [nowMs] : [];
    record.dirty = false;
    if (!dead && finish.againAfterMs !== undefined) times.push(Math.ceil(nowMs + finish.againAfterMs));
    const timerMs = times.length > 0 ? Math.min(...times) : undefined;
    // The fraction tells one run's timer from another's of the same millisecond, for `postpone`.
    if (timerMs !== undefined) timers.lower(key, timerMs + (run % 1000) / 1024);
    if (finish.barrier !== undefined) {
      record.barrier = { text: finish.barrier, atMs: nowMs };
      if (finish.failures === 'forget' && !dead && record.queuedAtMs === undefined) this.#store.resting.set(key, nowMs);
    }
    // A debounced key is not due and has no job before its window ends; `postpone` then adds it.
    if (record.queuedAtMs !== undefined && !debounced.has(key)) queued.lower(key, nowMs);
    this.#tidy(key);
    return { current: true, dead, timerMs };
  }

  #countFailures(key: string, record: MemoryRecord, finish: Known, nowMs: number, run: number): boolean {
    const failedBefore = record.failures > 0;
    if (finish.failures === 'count') record.failures += 1;
    if (finish.failures === 'forget') record.failures = 0;
    const { maxAttempts = Infinity } = this.#options;
    const dead = finish.dead === true || (finish.failures === 'count' && record.failures >= maxAttempts);
    if (dead) {
      record.deadSinceMs = nowMs;
      this.#store.dead.set(key, nowMs);
    }
    const recovered = finish.failures === 'forget' && failedBefore;
    if (finish.error || finish.failures === 'count' || dead || recovered) {
      const error = finish.error ? { error: finish.error.slice(0, ERROR_LENGTH) } : {};
      record.history = [{ atMs: nowMs, run, ...error }, ...record.history].slice(0, HISTORY_LENGTH);
    }
    return dead;
  }

  /** Of a key at rest nothing is kept. */
  #tidy(key: string): void {
    const record = this.#store.record(key);
    const { running, barrier, queuedAtMs, failures, deadSinceMs, tokenAtMs, history } = record;
    const kept = running ?? barrier ?? queuedAtMs ?? deadSinceMs ?? tokenAtMs;
    if (kept === undefined && failures === 0 && history.length === 0) this.#store.records.delete(key);
  }
}
