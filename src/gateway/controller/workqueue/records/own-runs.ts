import { randomUUID } from 'node:crypto';
import { originOf, tenantOf } from '../../../../core/index.ts';
import { RUN_MARGIN_MS } from '../queue-options.ts';
import type { FinishRequest } from './records.ts';
import type { Run } from '../run.ts';

/** A run that this gateway has started, as it would be on record. */
export interface OwnRun {
  readonly key: string;
  readonly run: number;
  /** See `Run.incarnation`. */
  readonly incarnation: string;
  /** Milliseconds since the epoch. */
  readonly startedMs: number;
  /** The run is over after this and the margin. Milliseconds since the epoch. */
  readonly deadlineMs: number;
  /**
   * `running`: its answer has not come, and it holds a slot. `accepted`: it goes on after a 202. `unknown`: its answer
   * was cut off or came too late, and it may go on.
   */
  readonly state: 'running' | 'accepted' | 'unknown';
  /**
   * The value of `OwnRuns.busies` when this run answered 202, which makes it busy. Absent for any other run.
   */
  readonly busies?: number;
}

/** What Redis has on record of some keys. */
export interface RecordedRuns {
  /** Of their queue, read after the keys: while it is a run's, the record of that run was not lost. */
  readonly incarnation: string | undefined;
  /** The number of each key's run; undefined: it has none. */
  readonly runs: readonly (number | undefined)[];
}

/** How long runs have taken so far. */
export interface Unfinished {
  /** All of them together. */
  readonly totalMs: number;
  /** The oldest; 0 when there is none. */
  readonly longestMs: number;
}

/**
 * The runs of one queue that this gateway has started and that may be in flight, in memory. A Redis that has lost the
 * records of these runs gets them from here (ADR 0006). A run is known from before its trigger is sent until its finish
 * is sent to Redis.
 */
export class OwnRuns {
  /** Names these runs in Redis: see `busies`. */
  readonly id = randomUUID();
  readonly #beginUntilMs: () => number;
  readonly #onGoingOn: (change: number) => void;
  /** By key. The oldest entry is first; a run that goes on after its answer moves to the end. */
  readonly #runs = new Map<string, OwnRun>();
  #highest = 0;
  #busies = 0;
  #goingOn = 0;

  /**
   * @param beginUntilMs see `GatewayRuns.beginUntil`. Default: for ever.
   * @param onGoingOn is given each change of `goingOn`.
   */
  constructor(beginUntilMs = (): number => Infinity, onGoingOn: (change: number) => void = () => {}) {
    this.#beginUntilMs = beginUntilMs;
    this.#onGoingOn = onGoingOn;
  }

  /** Whether a run may begin in this gateway: see `GatewayRuns.beginUntil`. */
  mayBegin(nowMs: number): boolean {
    return nowMs < this.#beginUntilMs();
  }

  /**
   * How many runs have become busy. Redis stores this count in the write that marks a run as busy. After a loss of
   * data the stored count shows which of these writes have survived. A run that it includes is not put back on record,
   * because another gateway may have received the callback that ended it.
   */
  get busies(): number {
    return this.#busies;
  }

  /** How many runs are known here that hold no connection: accepted ones, and those of unknown outcome. */
  get goingOn(): number {
    return this.#goingOn;
  }

  /** The highest number of a run here; 0: no run has begun. */
  get highest(): number {
    return this.#highest;
  }

  /** Records that the run begins. Must be called before its trigger is sent. */
  begin({ key, run, incarnation, deadlineMs }: Omit<Run, 'failures' | 'reasons'>, nowMs: number): void {
    this.#highest = Math.max(this.#highest, run);
    this.#delete(key);
    this.#set({ key, run, incarnation, startedMs: nowMs, deadlineMs, state: 'running' });
    // Forgets runs whose deadline and margin have passed, because another gateway may have finished them.
    for (const [oldest, { deadlineMs: endMs }] of this.#runs) {
      if (endMs + RUN_MARGIN_MS > nowMs) break;
      this.#delete(oldest);
    }
  }

  /** Records the finish of the run, which must be sent to Redis with the next command. */
  finish({ key, run, finish }: FinishRequest): void {
    const known = this.#runs.get(key);
    if (known?.run !== run) return;
    this.#delete(key);
    if (finish.kind === 'ended') return;
    const deadlineMs = finish.kind === 'accepted' ? Math.max(finish.untilMs, known.deadlineMs) : known.deadlineMs;
    if (finish.kind === 'accepted') this.#busies += 1;
    const busies = finish.kind === 'accepted' ? { busies: this.#busies } : {};
    this.#set({ ...known, deadlineMs, state: finish.kind, ...busies });
  }

  /** The runs of `goingOn` that `compare` has not seen for longest. */
  oldestGoingOn(count: number): readonly OwnRun[] {
    const found: OwnRun[] = [];
    for (const run of this.#runs.values()) {
      if (found.length === count) break;
      if (run.state !== 'running') found.push(run);
    }
    return found;
  }

  /** Forgets those of these runs that are over by the records of Redis: another gateway has recorded their ends. */
  compare(runs: readonly OwnRun[], { incarnation, runs: recorded }: RecordedRuns): void {
    for (const [at, each] of runs.entries()) {
      if (this.#runs.get(each.key) !== each) continue;
      this.#delete(each.key);
      // Records of another incarnation may lack the run.
      if (recorded[at] === each.run || incarnation !== each.incarnation) this.#set(each);
    }
  }

  /** Forgets runs without a connection whose deadline and margin have passed: also of a queue that begins none. */
  forgetOver(nowMs: number): void {
    for (const { key, state, deadlineMs } of this.#runs.values()) {
      if (state !== 'running' && deadlineMs + RUN_MARGIN_MS <= nowMs) this.#delete(key);
    }
  }

  #set(run: OwnRun): void {
    this.#runs.set(run.key, run);
    if (run.state !== 'running') this.#count(1);
  }

  #delete(key: string): void {
    const known = this.#runs.get(key);
    this.#runs.delete(key);
    if (known && known.state !== 'running') this.#count(-1);
  }

  #count(change: number): void {
    this.#goingOn += change;
    this.#onGoingOn(change);
  }

  /**
   * Returns when a new run of this key may begin, if Redis has lost an earlier run of it that may still be in flight. A
   * run number that is not higher than all numbers before shows that Redis has lost data. Undefined: it may begin now.
   */
  heldUntil({ key, run }: Pick<Run, 'key' | 'run'>, nowMs: number): number | undefined {
    const known = this.#runs.get(key);
    if (!known || run > this.#highest) return undefined;
    const endMs = known.deadlineMs + RUN_MARGIN_MS;
    return endMs > nowMs ? endMs : undefined;
  }

  /**
   * How long the runs whose answer has not come have taken so far: client-go's `updateUnfinishedWork`
   * (util/workqueue/metrics.go).
   */
  unfinished(nowMs: number): Unfinished {
    let [totalMs, longestMs] = [0, 0];
    for (const { state, startedMs } of this.inFlight(nowMs)) {
      if (state !== 'running') continue;
      const tookMs = Math.max(0, nowMs - startedMs);
      totalMs += tookMs;
      longestMs = Math.max(longestMs, tookMs);
    }
    return { totalMs, longestMs };
  }

  /**
   * Whether this gateway waits for the answer of this run. If so, it is the run in flight of its key, even if Redis has
   * lost its record.
   */
  waitsFor({ key, run, incarnation }: Pick<Run, 'key' | 'run' | 'incarnation'>, nowMs: number): boolean {
    const known = this.#runs.get(key);
    return (
      known?.run === run && known.incarnation === incarnation && known.state === 'running' && known.deadlineMs > nowMs
    );
  }

  /** The runs that may be in flight now. */
  inFlight(nowMs: number): OwnRun[] {
    return [...this.#runs.values()].filter(({ deadlineMs }) => deadlineMs + RUN_MARGIN_MS > nowMs);
  }

  hasInFlight(nowMs: number): boolean {
    for (const { deadlineMs } of this.#runs.values()) if (deadlineMs + RUN_MARGIN_MS > nowMs) return true;
    return false;
  }
}

/** The runs of all queues of a gateway. A queue that is closed and opened again keeps its runs. */
export class GatewayRuns {
  readonly #queues = new Map<string, OwnRuns>();
  /** The queues of removed controllers, by tenant, until `inFlight` has found that their runs are over. */
  readonly #removed = new Map<string, Set<string>>();
  /** `OwnRuns.goingOn` of all declared queues, by tenant. */
  readonly #goingOn = new Map<string, number>();
  #allGoingOn = 0;
  #beginUntilMs = Infinity;

  of(queue: string): OwnRuns {
    this.#removedOf(queue).delete(queue);
    const known = this.#queues.get(queue);
    if (known) return known;
    // Configured functions have no bound, and must not take from that of the tenants.
    const isBounded = originOf(queue) === 'declared';
    const runs: OwnRuns = new OwnRuns(
      () => this.#beginUntilMs,
      (change) => {
        // An answer may come when the queue has been forgotten.
        if (isBounded && this.#queues.get(queue) === runs) this.#count(tenantOf(queue), change);
      },
    );
    this.#queues.set(queue, runs);
    return runs;
  }

  /**
   * How many runs hold no connection: see `OwnRuns.goingOn`. Without those of configured functions.
   * @param tenant Default: of all tenants.
   */
  goingOn(tenant?: string): number {
    return tenant === undefined ? this.#allGoingOn : (this.#goingOn.get(tenant) ?? 0);
  }

  #count(tenant: string, change: number): void {
    this.#allGoingOn += change;
    const left = this.goingOn(tenant) + change;
    if (left > 0) this.#goingOn.set(tenant, left);
    else this.#goingOn.delete(tenant);
  }

  /**
   * Sets until when runs may begin here; call it again to extend the time. A process that is frozen for longer may
   * count as ended for the other gateways. Milliseconds of the gateways' clock. Default: runs begin for ever.
   */
  beginUntil(ms: number): void {
    this.#beginUntilMs = ms;
  }

  /** As `of`, for a caller that begins none. Undefined for a queue that is not known here. */
  find(queue: string): OwnRuns | undefined {
    return this.#queues.get(queue);
  }

  /** The controller was removed: its runs are forgotten when they are over, unless `of` is called before. */
  remove(queue: string): void {
    if (!this.#queues.has(queue)) return;
    const removed = this.#removedOf(queue).add(queue);
    this.#removed.set(tenantOf(queue), removed);
  }

  /** How many removed queues of a tenant have runs that may be in flight now. */
  leaving(tenant: string, nowMs: number): number {
    let count = 0;
    for (const queue of this.#removed.get(tenant) ?? []) if (this.#queues.get(queue)?.hasInFlight(nowMs)) count += 1;
    return count;
  }

  /**
   * The queues with runs that may be in flight now. Forgets runs that are over, and the removed queues that have none.
   */
  inFlight(nowMs: number): string[] {
    for (const runs of this.#queues.values()) runs.forgetOver(nowMs);
    for (const [tenant, queues] of this.#removed) {
      for (const queue of queues) {
        const runs = this.#queues.get(queue);
        if (runs?.hasInFlight(nowMs)) continue;
        queues.delete(queue);
        this.#queues.delete(queue);
      }
      if (queues.size === 0) this.#removed.delete(tenant);
    }
    return [...this.#queues].flatMap(([queue, runs]) => (runs.hasInFlight(nowMs) ? [queue] : []));
  }

  #removedOf(queue: string): Set<string> {
    return this.#removed.get(tenantOf(queue)) ?? new Set();
  }
}
