import { randomUUID } from 'node:crypto';
import { backoffMs, messageOf, type Runtime } from '../../../core/index.ts';
import { isAboutOneCommand } from '../../../ground/redis/redis.ts';
import { RUN_MARGIN_MS, SLOT_MS } from './queue-options.ts';
import type { StartRate } from './start-rates.ts';
import type { LowRequest, Start, StartRequest, Starts, StartTimes } from './records.ts';
import type { RedisRecords } from './redis-records.ts';

/** The decision about a key. */
export interface Decided {
  readonly request: StartRequest;
  readonly start: Start;
}

export interface StarterOptions {
  readonly name: string;
  readonly records: RedisRecords;
  /** `concurrency`: runs at a time, over all gateways. */
  readonly limits: { readonly timeoutMs: number; readonly concurrency: number };
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly gate: RunGate;
  readonly on: StarterEvents;
}

export interface StarterEvents {
  /** The decisions of one call, for keys that did not find every slot taken. */
  readonly decided: (decided: readonly Decided[], times: StartTimes) => void;
  /** Keys without a job found every slot taken. */
  readonly full: (keys: readonly string[]) => void;
  /** A call has begun; a stop waits for it. */
  readonly work: (work: Promise<unknown>) => void;
  /** Asks for the barrier of this key's last run, if this gateway knows that the barrier has passed. */
  readonly passedBarrier: (key: string) => Promise<string | undefined> | undefined;
}

/** Whether runs may begin in this gateway. */
export interface RunGate {
  /** Aborted when this gateway starts no more runs. */
  readonly ending: AbortSignal;
  /** Waits until runs may begin here. @returns false when none will any more. */
  readonly opened: () => Promise<boolean>;
  /** Whether no run may begin here just now. */
  readonly closed: () => boolean;
  /** How many may begin here, as the circuit breaker of the function says. */
  readonly room: () => number;
  /** A run has begun here, or has ended: `room` changes by one. */
  readonly started: (key: string, run: number) => void;
  readonly ended: (key: string, run: number) => void;
  /** How many may begin here, so that the runs of other tenants do not wait for them. */
  readonly startRate: StartRate;
}

/** How soon starts that Redis refused are tried again. */
const START_AGAIN_MS = [20, 1000] as const;
/** How often Redis may refuse a start for its key's own record before the start is given up for a while. */
const OWN_FAILURES = 3;
/** Keys in one call. */
const MOST = 200;
/**
 * Keys that found every slot taken by other gateways are asked for again after this, and a low-priority key goes first
 * as often.
 */
const FULL_AGAIN_MS = 20;
const PROLONG_MS = 4000;

/** Distinguishes the calls of a process. */
let calls = 0;

/**
 * Starts keys in the order in which they come, while slots are free, and keys of the backlog when slots are left. One
 * call is under way at a time: keys that come during a call go with the next one.
 *
 * A key leaves the line when a call has decided about it, or this gateway ends. Slots are counted in Redis over all
 * gateways. A slot is free when the finish of its run has been sent, or its gateway has shown no sign of life for 12 s.
 */
export class Starter {
  readonly #options: StarterOptions;
  readonly #id = randomUUID();
  #waiting: Waiting[] = [];
  /** Keys whose runs hold a slot, and until when they may hold it at most. */
  readonly #held = new Map<string, { readonly run: number; readonly endMs: number }>();
  /** Keys of the call that is under way. */
  #asked = 0;
  #asking = false;
  /** The backlog may have keys that can run. */
  #hasLow = false;
  #lowNonce: string | undefined;
  /** Since when low-priority keys have been passed over; undefined: the last call took some. */
  #lowSinceMs: number | undefined;
  /**
   * Whether the last call found every slot taken, or has used up the start rate. Cleared when a slot is free, or after
   * `FULL_AGAIN_MS`. `#isLowFull`: the same for keys of the backlog.
   */
  #isFull = false;
  #isLowFull = false;
  #retrying = false;
  #prolonging = false;
  readonly #closing = new AbortController();
  /** Whether starts fail at present. The first failure and the recovery are logged. */
  #failing = false;

  constructor(options: StarterOptions) {
    this.#options = options;
    options.gate.ending.addEventListener('abort', () => this.#leaveAll());
  }

  /** For how many keys there may be a slot now. */
  get room(): number {
    const { gate, limits } = this.#options;
    if (this.#waiting.length > 0 || this.#isFull || gate.closed()) return 0;
    const room = Math.min(limits.concurrency - this.#held.size, gate.room(), Math.floor(gate.startRate.room()));
    return Math.max(0, room - this.#asked);
  }

  /**
   * Puts keys into the line.
   * @returns the keys that were not decided upon before this gateway ended or could start no more: other gateways start
   *   them.
   * @param hasJob `false`: a key that finds every slot taken is given to `on.full`. `true`: it waits here.
   */
  enter(keys: readonly string[], hasJob: boolean): Promise<readonly string[]> {
    return new Promise((resolve) => {
      const entry = { left: keys.length, undecided: [], resolve };
      if (keys.length === 0) return resolve([]);
      for (const key of keys)
        this.#waiting.push({ request: { key, nonce: this.#nonce() }, hasJob, entry, failures: 0 });
      if (this.#options.gate.ending.aborted) this.#leaveAll();
      else this.#pump();
    });
  }

  /** Asks again for a key whose barrier has passed. Should this gateway not start it, its timer brings it back. */
  enterAgain(request: StartRequest): void {
    this.#waiting.unshift({ request, hasJob: true, entry: undefined, failures: 0 });
    this.#pump();
  }

  /**
   * Settles the lost runs of these keys, also while none may start here. @returns the keys that may start now.
   * @throws when Redis refuses it.
   */
  async settle(keys: readonly string[]): Promise<readonly string[]> {
    const { records, on } = this.#options;
    const times = this.#times();
    const requests = keys.map((key) => ({ key, nonce: this.#nonce() }));
    const { starts } = await records.startAll(requests, { ...times, slots: 0 });
    const decided = requests.map((request, at) => ({ request, start: starts[at] ?? FULL }));
    const full = decided.filter(({ start }) => start.kind === 'full');
    on.decided(
      decided.filter(({ start }) => start.kind !== 'full'),
      times,
    );
    return full.map(({ request }) => request.key);
  }

  /** Must be called when the backlog may have keys: they start in free slots. */
  enterBacklog(): void {
    this.#hasLow = true;
    this.#pump();
  }

  /** The finish of this run has been sent. */
  release(key: string, run: number): void {
    this.#options.gate.ended(key, run);
    if (this.#held.get(key)?.run !== run) return;
    this.#held.delete(key);
    this.resume();
  }

  /** Checks again which keys may start. Must be called when a slot may be free or the gate has changed. */
  resume(): void {
    this.#isFull = false;
    this.#isLowFull = false;
    this.#pump();
  }

  /** Stops extending the slots of its runs. */
  close(): void {
    this.#closing.abort();
  }

  #pump(): void {
    const { gate, limits } = this.#options;
    if (gate.closed()) return;
    // Keys leave even during a call, because the call may start the single run that the gate allows.
    if (gate.room() === 0) this.#leaveAll();
    if (this.#asking || this.#isFull) return;
    const room = Math.min(limits.concurrency - this.#held.size, gate.room(), MOST);
    if (room <= 0) return;
    if (gate.startRate.room() < room) return this.#askSome(Math.floor(gate.startRate.room()));
    this.#askFor(room);
  }

  /** Asks for as many keys as may begin now, and for the others a moment later. */
  #askSome(room: number): void {
    if (this.#waiting.length === 0 && !this.#hasLow) return;
    if (room > 0) this.#askFor(room);
    this.#isFull = true;
    void this.#retry();
  }

  #askFor(room: number): void {
    const { gate } = this.#options;
    const asked = this.#waiting.splice(0, room);
    const low = asked.length < gate.room() ? this.#lowRequest(room - asked.length) : undefined;
    if (asked.length === 0 && !low) return;
    this.#asking = true;
    this.#asked = asked.length + (low?.count ?? 0);
    const asking = this.#ask(asked, low).finally(() => {
      this.#asking = false;
      this.#asked = 0;
      if (gate.ending.aborted) this.#leaveAll();
      this.#pump();
    });
    this.#options.on.work(asking);
  }

  #lowRequest(spare: number): LowRequest | undefined {
    if (!this.#hasLow || this.#isLowFull) return undefined;
    const nowMs = this.#options.runtime.clock.now();
    this.#lowSinceMs ??= nowMs;
    const first = nowMs - this.#lowSinceMs >= FULL_AGAIN_MS ? 1 : 0;
    const count = Math.max(spare, first);
    if (count === 0) return undefined;
    this.#lowNonce ??= this.#nonce();
    return { count, first, nonce: this.#lowNonce, gateway: this.#id };
  }

  async #ask(asked: readonly Waiting[], low: LowRequest | undefined): Promise<void> {
    const { records, runtime, gate } = this.#options;
    const { clock, logger } = runtime;
    const { name } = this.#options;
    const requests = await this.#requests(asked);
    for (let failures = 1; ; failures += 1) {
      const times = this.#times();
      let answer: Starts | undefined;
      try {
        answer = await records.startAll(requests, times, low);
      } catch (error) {
        // The script may have failed because of one key's record.
        if (isAboutOneCommand(error)) return this.#askAlone(asked, error);
        if (!this.#failing) {
          logger.warn({ controller: name, error: messageOf(error) }, 'runs could not be started, trying again');
          this.#failing = true;
        }
      }
      if (answer) {
        if (this.#failing) logger.info({ controller: name }, 'runs can be started again');
        this.#failing = false;
        if (low) this.#lowAnswered(answer.low.length, answer.lowLeft);
        const lows = answer.low.map(({ key, start }) => ({ request: { key, nonce: low?.nonce ?? '' }, start }));
        return this.#decide(asked, answer.starts, { lows, times });
      }
      await clock.sleep(backoffMs(START_AGAIN_MS, failures), gate.ending);
      if (!(await gate.opened())) {
        this.#waiting.unshift(...asked);
        return;
      }
    }
  }

  #times(): StartTimes {
    const { limits, runtime } = this.#options;
    const nowMs = runtime.clock.now();
    const slotMs = nowMs + Math.min(SLOT_MS, limits.timeoutMs + RUN_MARGIN_MS);
    return { nowMs, deadlineMs: nowMs + limits.timeoutMs, slotMs };
  }

  /** Adds the barriers that this gateway knows to have passed, which saves their keys a second call. */
  async #requests(asked: readonly Waiting[]): Promise<readonly StartRequest[]> {
    return Promise.all(
      asked.map(async ({ request }) => {
        const known = request.passedBarrier === undefined ? this.#options.on.passedBarrier(request.key) : undefined;
        const passedBarrier = known && (await known);
        return passedBarrier === undefined ? request : { ...request, passedBarrier };
      }),
    );
  }

  /**
   * Redis refused the call because of one key's record. Starts each key in its own call, so that only that key fails.
   */
  async #askAlone(asked: readonly Waiting[], error: unknown): Promise<void> {
    const [only, ...others] = asked;
    if (only === undefined) {
      const { name, runtime } = this.#options;
      runtime.logger.error({ controller: name, error: messageOf(error) }, 'Redis refuses to start low-priority keys');
      this.#hasLow = false;
      return;
    }
    if (others.length > 0) {
      for (const each of asked) await this.#ask([each], undefined);
      return;
    }
    only.failures += 1;
    if (only.failures < OWN_FAILURES) return this.#ask(asked, undefined);
    this.#refuse(only, error);
  }

  /**
   * Gives up a key whose record stops the script. The key is still on record as queued or due, and comes back when
   * `Upkeep` looks for keys without a job.
   */
  #refuse(refused: Waiting, error: unknown): void {
    const { name, runtime } = this.#options;
    const fields = { controller: name, key: refused.request.key, error: messageOf(error) };
    runtime.logger.error(fields, 'Redis refuses to start a key because of its record');
    runtime.metrics.count('levelhook_refused_starts_total', { controller: name });
    leave(refused);
  }

  #lowAnswered(taken: number, left: boolean): void {
    this.#lowNonce = undefined;
    this.#hasLow = left;
    if (taken > 0) this.#lowSinceMs = undefined;
    else if (left) {
      this.#isLowFull = true;
      void this.#retry();
    }
  }

  #decide(
    asked: readonly Waiting[],
    starts: readonly Start[],
    { lows, times }: { lows: readonly Decided[]; times: StartTimes },
  ): void {
    const { on, gate } = this.#options;
    const decided: Decided[] = [];
    const full: Waiting[] = [];
    asked.forEach((each, at) => {
      const start = starts[at];
      if (!start || start.kind === 'full') full.push(each);
      else {
        decided.push({ request: each.request, start });
        leave(each);
      }
    });
    decided.push(...lows);
    gate.startRate.take(decided.filter(({ start }) => start.kind === 'go').length);
    for (const { request, start } of decided) {
      if (start.kind !== 'go') continue;
      this.#held.set(request.key, { run: start.run, endMs: times.deadlineMs + RUN_MARGIN_MS });
      gate.started(request.key, start.run);
    }
    if (this.#held.size > 0) void this.#prolong();
    const jobless = full.filter(({ hasJob }) => !hasJob);
    for (const each of jobless) leave(each);
    this.#waiting.unshift(...full.filter(({ hasJob }) => hasJob));
    if (full.length > 0) {
      this.#isFull = true;
      void this.#retry();
    }
    if (decided.length > 0) on.decided(decided, times);
    if (jobless.length > 0) on.full(jobless.map(({ request }) => request.key));
  }

  /** Asks again after a time, because other gateways do not announce the slots that they free. */
  async #retry(): Promise<void> {
    if (this.#retrying) return;
    this.#retrying = true;
    const { gate, runtime } = this.#options;
    await runtime.clock.sleep(FULL_AGAIN_MS, gate.ending);
    this.#retrying = false;
    this.resume();
  }

  /** Extends the slots of this gateway's runs until the runs end. */
  async #prolong(): Promise<void> {
    if (this.#prolonging) return;
    this.#prolonging = true;
    const { records, runtime } = this.#options;
    const { signal } = this.#closing;
    while (this.#held.size > 0 && !signal.aborted) {
      await runtime.clock.sleep(PROLONG_MS, signal);
      const nowMs = runtime.clock.now();
      // After its end a run may have been settled, and another run of its key may hold a slot.
      const slots = [...this.#held].flatMap(([key, { endMs }]) =>
        endMs > nowMs ? [{ key, untilMs: Math.min(nowMs + SLOT_MS, endMs) }] : [],
      );
      // A slot that could not be prolonged is given to another run some seconds early.
      await records.prolongSlots(slots).catch(() => {});
    }
    this.#prolonging = false;
  }

  /** Returns all waiting keys to their callers, so that they do not start here. */
  #leaveAll(): void {
    for (const waiting of this.#waiting.splice(0)) leave(waiting, waiting.request.key);
  }

  #nonce(): string {
    return `${this.#id}/${(calls += 1)}`;
  }
}

const FULL: Start = { kind: 'full' };

interface Waiting {
  readonly request: StartRequest;
  readonly hasJob: boolean;
  readonly entry: Entry | undefined;
  failures: number;
}

/** Keys that entered the line together. */
interface Entry {
  left: number;
  readonly undecided: string[];
  readonly resolve: (undecided: readonly string[]) => void;
}

function leave({ entry }: Waiting, undecided?: string): void {
  if (!entry) return;
  if (undecided !== undefined) entry.undecided.push(undecided);
  entry.left -= 1;
  if (entry.left === 0) entry.resolve(entry.undecided);
}
