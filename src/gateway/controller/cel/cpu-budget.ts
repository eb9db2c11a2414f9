import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { TenantTurns, TokenBucket } from '../../../core/index.ts';
import { threadMs } from '../../../ground/time-slice.ts';
import { TimeLimitError, withinTime } from './time-limit.ts';

/**
 * Milliseconds of processor time that one evaluation may take, and that all evaluations of one controller for one
 * change may take together. Measured work leaves a budget with no larger debt than this.
 */
export const LIMIT_MS = 100;
/** A budget with fewer milliseconds left counts as used up. */
const LEAST_MS = 5;

/** The budget of one controller. A token of this and the other buckets is a millisecond. */
const OWN = { burst: 300, perSecond: 50 };
/** A controller that has used up its burst waits until this part of it is available again. */
const READY_AGAIN = 1 / 2;

/** The budget that all controllers share. */
const COMMON = { burst: 400, perSecond: 100 };

/**
 * While the common budget is used up, tenants that need time divide this many milliseconds per second evenly. A
 * tenant's share holds `burstMs` at most and allows evaluations of `limitMs` at most. It receives time for `activeMs`
 * after its last use, and is deleted after `keptMs` without use.
 */
const SHARES_PER_SECOND = 50;
const SHARE = { burstMs: 20, limitMs: 5, activeMs: 10_000, keptMs: 600_000 };

/**
 * The first part of each run is free, because the gateway itself spends more time on a change. The bucket `FREE` bounds
 * the free time of all controllers together.
 */
const FREE_MS = 0.05;
const FREE = { burst: 1000, perSecond: 100 };

/**
 * For work that can wait and that comes in the number of the keys: each tenant has this much of its own, so that the
 * lookups of its controllers, which are left out when the budget is used up, do not pay for it.
 */
const BACKGROUND = { burst: 100, perSecond: 50 };
/** The same of all tenants together. */
const BACKGROUND_OF_ALL = { burst: 200, perSecond: 200 };

/** How often waiting work checks its budget. */
const CHECK_EVERY_MS = 20;

/**
 * The kernel may count a thread's processor time in ticks of up to this length, so a run may show only in the
 * measurement of a later run.
 */
const TICK_MS = 10;
/** Shorter runs are charged wall time, because reading the thread's processor time costs more than most handlers. */
const SHORT_MS = 1;

/** The charge for queueing a key, and how many keys of a change are free, because an ordinary change wakes a few. */
const KEY = { ms: 0.05, free: 10 };

export interface CpuBudgetsOptions {
  /** Monotonic, in milliseconds. Default `performance.now`. */
  readonly now?: () => number;
  /** Processor time of this thread, in milliseconds. Default: as the kernel counts it. */
  readonly threadMs?: () => number;
  /** Default: a timer. */
  readonly sleep?: (ms: number) => Promise<unknown>;
}

/** Work that waits until its controller's budget allows it. */
interface Turn {
  /** The latest time of its turn. After that the work is given up. */
  readonly endMs: number;
  readonly take: () => void;
  readonly giveUp: () => void;
}

/** A tenant's share of the guaranteed part. */
interface Share {
  leftMs: number;
  /** The value of `#given` when this share was last topped up. */
  given: number;
  usedAtMs: number;
}

/**
 * Limits the processor time that controllers take from this thread. Expressions, predicates and mappers beyond the
 * limit are skipped. The decoding of functions' answers waits. The budget of a controller limits that controller,
 * whatever the number of its expressions; the common budget limits all controllers together. When the common budget is
 * used up, each tenant still has an even share of a guaranteed part, for small evaluations, so that a tenant that uses
 * little is served whatever the others do and however many controllers they have.
 */
export class CpuBudgets {
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
  readonly #threadMs: () => number;
  #sample = { atMs: -Infinity, cpuMs: 0 };
  readonly #common: TokenBucket;
  readonly #free: TokenBucket;
  readonly #budgets = new Map<string, CpuBudget>();
  readonly #shares = new Map<string, Share>();
  readonly #background = new Map<string, TokenBucket>();
  readonly #backgroundOfAll: TokenBucket;
  /** Who waits for time in the background: of a tenant one at a time, and of all tenants. */
  readonly #waitingForOwn = new TenantTurns(Infinity, 1);
  readonly #waitingForAll = new TenantTurns(1);
  /** The shares that were used lately. The reserved time is divided among them. */
  readonly #active = new Set<Share>();
  /** The milliseconds that each active share has received so far. */
  #given = 0;
  #givenAtMs: number;

  constructor(options: CpuBudgetsOptions = {}) {
    const { now = () => performance.now(), threadMs: measure = threadMs, sleep: wait = sleep } = options;
    this.now = now;
    this.sleep = wait;
    this.#threadMs = measure;
    this.#common = new TokenBucket(COMMON, now);
    this.#free = new TokenBucket(FREE, now);
    this.#backgroundOfAll = new TokenBucket(BACKGROUND_OF_ALL, now);
    this.#givenAtMs = now();
  }

  /**
   * Returns the budget of a controller. A controller that is declared again keeps its budget, so a changed declaration
   * gains no time.
   * @param tenant the owner of the controller. Default: the controller is a tenant of its own.
   */
  of(controller: string, tenant = controller): CpuBudget {
    const known = this.#budgets.get(controller);
    if (known) return known;
    // A full budget equals a new one, so it is not kept.
    for (const [id, budget] of this.#budgets) if (budget.isFull) this.#budgets.delete(id);
    for (const [name, share] of this.#shares) {
      if (share.usedAtMs < this.now() - SHARE.keptMs) this.#shares.delete(name);
    }
    for (const [name, bucket] of this.#background) if (bucket.isFull) this.#background.delete(name);
    const budget = new CpuBudget(this, tenant);
    this.#budgets.set(controller, budget);
    return budget;
  }

  /** Processor time of the thread, as it was at most `oldMs` ago. */
  cpuMs(nowMs: number, oldMs: number): number {
    if (nowMs - this.#sample.atMs > oldMs) this.#sample = { atMs: nowMs, cpuMs: this.#threadMs() };
    return this.#sample.cpuMs;
  }

  /** The longest evaluation, in milliseconds, that the common budget or the tenant's share allows; below 1: none. */
  limitMs(tenant: string): number {
    const leftMs = this.#common.tokens;
    return leftMs >= LEAST_MS ? leftMs : Math.min(SHARE.limitMs, this.#shareOf(tenant).leftMs);
  }

  /** Takes free time for work of this length. @returns how many milliseconds are free. */
  free(ms: number): number {
    const free = Math.max(0, Math.min(ms, this.#free.tokens));
    this.#free.spend(free);
    return free;
  }

  /**
   * Charges the common budget, or the tenant's share once the common budget is used up.
   * @param blockedMs wall time, which the common budget pays because other work of the thread waited.
   */
  spend(tenant: string, ms: number, blockedMs: number): void {
    if (this.#common.tokens >= LEAST_MS) return this.#common.spend(blockedMs, LIMIT_MS);
    const share = this.#shareOf(tenant);
    share.leftMs = Math.min(share.leftMs, Math.max(-SHARE.burstMs, share.leftMs - ms));
  }

  /** Charges time in advance, without a limit of the debt. @returns a function that gives unused milliseconds back. */
  charge(tenant: string, ms: number): (tooMuchMs: number) => void {
    if (this.#common.tokens >= LEAST_MS) {
      this.#common.spend(ms);
      return (tooMuchMs) => this.#common.giveBack(tooMuchMs);
    }
    const share = this.#shareOf(tenant);
    share.leftMs -= ms;
    return (tooMuchMs) => (share.leftMs += tooMuchMs);
  }

  /** Takes time for work that can wait: see `CpuBudget.background`. */
  background(tenant: string, ms: number, signal: AbortSignal): Promise<void> {
    return this.#waitingForOwn.run(tenant, async () => {
      const own = this.#background.get(tenant) ?? new TokenBucket(BACKGROUND, this.now);
      this.#background.set(tenant, own);
      await this.#filled(own, signal);
      await this.#waitingForAll.run(tenant, () => this.#filled(this.#backgroundOfAll, signal));
      own.spend(ms);
      this.#backgroundOfAll.spend(ms);
    });
  }

  async #filled(bucket: TokenBucket, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (bucket.tokens > 0) return;
      await this.sleep(CHECK_EVERY_MS);
    }
  }

  #shareOf(tenant: string): Share {
    const now = this.now();
    if (this.#active.size > 0)
      this.#given += (((now - this.#givenAtMs) / 1000) * SHARES_PER_SECOND) / this.#active.size;
    this.#givenAtMs = now;
    for (const each of this.#active) {
      if (each.usedAtMs >= now - SHARE.activeMs) continue;
      this.#topUp(each);
      this.#active.delete(each);
    }
    let share = this.#shares.get(tenant);
    if (!share) {
      share = { leftMs: SHARE.burstMs, given: this.#given, usedAtMs: now };
      this.#shares.set(tenant, share);
    }
    if (this.#active.has(share)) this.#topUp(share);
    else share.given = this.#given;
    this.#active.add(share);
    share.usedAtMs = now;
    return share;
  }

  /** Adds the time that each share was given since this one was last topped up. */
  #topUp(share: Share): void {
    share.leftMs = Math.min(SHARE.burstMs, share.leftMs + this.#given - share.given);
    share.given = this.#given;
  }
}

/**
 * The processor time of one controller. `run` measures its work; `within` also bounds it. The controller's own budget
 * is charged processor time. The common budget is charged wall time, because all other work of the thread waits that
 * long.
 */
export class CpuBudget {
  readonly #shared: CpuBudgets;
  readonly #tenant: string;
  readonly #own: TokenBucket;
  #isUsedUp = false;
  /** How many calls of `run` are nested now. */
  #depth = 0;
  /** The outermost run has been counted up to these times. */
  #from = { atMs: 0, cpuMs: 0 };
  #spentInRun = 0;
  #freeInRun = 0;
  /** Processor time that was counted and that no budget has paid yet. */
  #dueMs = 0;
  /** The wall time of the same work. */
  #blockedMs = 0;
  /** Work that waits for its turn. The first entry may be running. */
  readonly #queue: Turn[] = [];
  /** Wall time of runs that the thread's processor time does not show yet, because the kernel may count in ticks. */
  #unseenMs = 0;

  constructor(shared: CpuBudgets, tenant: string) {
    this.#shared = shared;
    this.#tenant = tenant;
    this.#own = new TokenBucket(OWN, shared.now);
  }

  get isFull(): boolean {
    return this.#depth === 0 && this.#queue.length === 0 && this.#own.isFull;
  }

  /** Whether the controller alone has no time: does not touch what its tenant shares. */
  get isUsedUp(): boolean {
    const own = this.#own.tokens;
    return own < LEAST_MS || (this.#isUsedUp && own < OWN.burst * READY_AGAIN);
  }

  /** The longest evaluation that may start now, in whole milliseconds; 0: none may. */
  get limitMs(): number {
    if (this.#depth > 0) this.#count();
    this.#pay();
    const own = this.#own.tokens;
    if (own < LEAST_MS) this.#isUsedUp = true;
    else if (own >= OWN.burst * READY_AGAIN) this.#isUsedUp = false;
    if (this.#isUsedUp) return 0;
    const inRun = this.#depth > 0 ? this.#spentInRun : 0;
    const limit = Math.min(LIMIT_MS - inRun, own, this.#shared.limitMs(this.#tenant));
    // The watchdog takes whole milliseconds only, so the limit is rounded up and the excess becomes debt.
    return limit < 1 ? 0 : Math.ceil(limit);
  }

  /** The time that the outermost run under way has taken. */
  get spentInRunMs(): number {
    if (this.#depth > 0) this.#count();
    return this.#spentInRun;
  }

  /** Runs synchronous work of this controller, and counts its time; a run within a run is counted once. */
  run<T>(work: () => T): T {
    if (this.#depth === 0) {
      const atMs = this.#shared.now();
      this.#from = { atMs, cpuMs: this.#shared.cpuMs(atMs, SHORT_MS) };
      this.#spentInRun = 0;
      this.#freeInRun = FREE_MS;
    }
    this.#depth += 1;
    try {
      return work();
    } finally {
      this.#count();
      this.#depth -= 1;
      if (this.#depth === 0) this.#pay();
    }
  }

  /**
   * Runs work that may be expensive, within the present limit.
   * @param isCheap whether the work is known to end within the limit: then it needs no watchdog, which costs a thread.
   * @throws TimeLimitError, and errors of the work.
   */
  within<T>(work: () => T, isCheap: (limitMs: number) => boolean): T {
    return this.run(() => {
      const limitMs = this.#limitOrThrow();
      return isCheap(limitMs) ? work() : withinTime(limitMs, work);
    });
  }

  /**
   * Runs synchronous work as `run` does, at once when the budget is not used up. Otherwise the work waits behind
   * earlier work, and other work of the thread has a turn in between.
   * @param withinMs the longest wait. Default: no limit.
   * @throws TimeLimitError when its turn has not come by then; errors of the work.
   */
  async inTurn<T>(work: () => T, withinMs = Infinity): Promise<T> {
    if (this.#queue.length === 0 && this.limitMs > 0) return this.run(work);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.push({
      endMs: this.#shared.now() + withinMs,
      giveUp: () => reject(new TimeLimitError('has used up its processor time, and its turn did not come in time')),
      take: () => {
        try {
          resolve(this.run(work));
        } catch (error) {
          reject(error);
        }
      },
    });
    if (this.#queue.length === 1) void this.#serve();
    return promise;
  }

  async #serve(): Promise<void> {
    while (this.#queue.length > 0) {
      await nextTurn();
      const nowMs = this.#shared.now();
      for (const late of this.#queue.filter(({ endMs }) => endMs <= nowMs)) {
        this.#queue.splice(this.#queue.indexOf(late), 1);
        late.giveUp();
      }
      if (this.limitMs === 0) {
        await this.#shared.sleep(CHECK_EVERY_MS);
        continue;
      }
      this.#queue[0]?.take();
      this.#queue.shift();
    }
  }

  /**
   * Charges time that the controller's work costs elsewhere, such as in Redis.
   * @returns a function that gives unused milliseconds back.
   */
  charge(ms: number): (tooMuchMs: number) => void {
    this.#own.spend(ms);
    const giveBack = this.#shared.charge(this.#tenant, ms);
    return (tooMuchMs) => {
      this.#own.giveBack(tooMuchMs);
      giveBack(tooMuchMs);
    };
  }

  /**
   * Resolves when the tenant may do so much work that can wait. Its controllers together have 50 ms of it a second,
   * and all tenants 200 ms, apart from their budgets.
   * @throws the reason of the signal.
   */
  background(ms: number, signal: AbortSignal): Promise<void> {
    return this.#shared.background(this.#tenant, ms, signal);
  }

  /**
   * Charges the gateway's time for queueing keys that one change wakes.
   * @param before how many keys the same change has woken before these.
   * @throws TimeLimitError when the budget is used up.
   */
  chargeKeys(count: number, before = 0): void {
    const ms = Math.min(count, Math.max(0, before + count - KEY.free)) * KEY.ms;
    if (ms === 0) return;
    this.#limitOrThrow();
    this.charge(ms);
  }

  #limitOrThrow(): number {
    const { limitMs } = this;
    if (limitMs === 0) throw new TimeLimitError('has used up its processor time and is left out for a while');
    return limitMs;
  }

  #count(): void {
    const atMs = this.#shared.now();
    const ms = atMs - this.#from.atMs;
    const isShort = ms < SHORT_MS;
    const cpuMs = this.#shared.cpuMs(atMs, isShort ? SHORT_MS : 0);
    const seenMs = isShort ? ms : this.#seen(ms, cpuMs - this.#from.cpuMs);
    this.#from = { atMs, cpuMs };
    this.#spentInRun += seenMs;
    this.#dueMs += seenMs;
    this.#blockedMs += ms;
  }

  /**
   * Returns the processor time to charge. A tick in this run may also stand for earlier runs, but for no more than
   * their wall time.
   */
  #seen(ms: number, cpuMs: number): number {
    const seenMs = Math.max(0, Math.min(cpuMs, this.#unseenMs + ms));
    this.#unseenMs = Math.min(TICK_MS, this.#unseenMs + ms - seenMs);
    return seenMs;
  }

  /** Charges the counted time to the budgets. */
  #pay(): void {
    const [dueMs, blockedMs] = [this.#dueMs, this.#blockedMs];
    this.#dueMs = 0;
    this.#blockedMs = 0;
    if (dueMs <= 0) return;
    const free = this.#freeInRun > 0 ? this.#shared.free(Math.min(dueMs, this.#freeInRun)) : 0;
    this.#freeInRun -= free;
    if (dueMs <= free) return;
    this.#own.spend(dueMs - free, LIMIT_MS);
    this.#shared.spend(this.#tenant, dueMs - free, blockedMs - free);
  }
}
