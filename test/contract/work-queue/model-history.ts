import { expect } from 'vitest';
import { replayDeadLetters } from '../../../src/gateway/controller/workqueue/records/dead-letters.ts';
import { RUN_MARGIN_MS } from '../../../src/gateway/controller/workqueue/queue-options.ts';
import {
  IDLE_POLL_INTERVAL_MS,
  MIN_POLL_INTERVAL_MS,
} from '../../../src/gateway/controller/workqueue/worker/poller.ts';
import { keyBackoffMs } from '../../../src/gateway/controller/workqueue/rate-limiter.ts';
import type {
  Finish,
  PauseScope,
  Ended,
  Process,
  Run,
  WorkQueue,
} from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { QueueModel } from './model.ts';
import { numbered, type Setting } from './setting.ts';

const KEYS = [...numbered('a/', 8), ...numbered('b/', 8), 'c'];
const SCOPES: readonly PauseScope[] = [
  'controller',
  'recovery',
  'namespace/a',
  'namespace/b',
  'object/a/0',
  'object/c',
  'key/a/0',
  'key/b/1',
];
const TIMEOUT_MS = 500;
const OPTIONS = { concurrency: 4, timeoutMs: TIMEOUT_MS, maxAttempts: 6 };

/**
 * A random history on one queue, all that it does judged by the model. The queue must have been opened with nothing on
 * it.
 */
export class ModelHistory implements Process {
  readonly model = new QueueModel();
  readonly #setting: Setting;
  readonly #random: () => number;
  readonly #crashes: number;
  #gateways: WorkQueue[] = [];
  readonly #pauses = new Set<PauseScope>();
  readonly #busy: { key: string; run: number }[] = [];
  readonly #barriers = new Map<string, number>();
  /** The gateways whose circuit is open, and until when. */
  readonly #openUntilMs = new Map<WorkQueue, number>();
  /** What was found wrong inside a run, where the queue would take it for its own trouble. */
  readonly #faults: unknown[] = [];
  /** How many runs a gateway began while its circuit was open: they had started before. */
  refused = 0;
  readonly inFlight: string[] = [];
  readonly overlaps: string[] = [];
  #adds = 0;

  /** @param crashes how many of a thousand steps end a gateway in the middle. */
  constructor(setting: Setting, random: () => number, crashes: number) {
    this.#setting = setting;
    this.#random = random;
    this.#crashes = crashes;
    setting.watch(this);
    // The timer that a gateway sets after its end is found when another looks for those that nobody has told of.
    setting.lateMs = IDLE_POLL_INTERVAL_MS + MIN_POLL_INTERVAL_MS;
  }

  /**
   * @param adds how many keys are added, one way or another; more, until a twentieth of them has led to a run, since a
   *   queue on a slow machine merges more of them.
   */
  async play(adds: number): Promise<void> {
    await this.#openGateway();
    await this.#openGateway();
    while (this.#adds < adds || this.model.runs <= adds / 20) {
      await this.#step();
      this.#check();
    }
    for (const scope of this.#pauses) await this.#resume(scope);
    // What is lost is settled, what is busy is lost, what waits longest is due.
    for (let tries = 0; tries < 60 && (await this.#setting.pending()) > 0; tries += 1) {
      await this.#setting.pass(1000);
      this.#check();
    }
    expect(await this.#setting.pending(), 'keys that never came to rest').toBe(0);
    this.model.checkAtRest();
  }

  /** As the dispatcher: a run that comes while the circuit of its gateway is open is given back. */
  async #runUnlessOpen(run: Run, queue: WorkQueue): Promise<Finish> {
    if (this.#now() < (this.#openUntilMs.get(queue) ?? 0)) {
      this.refused += 1;
      return { kind: 'ended', failures: 'keep', againAfterMs: 0 };
    }
    return this.#run(run);
  }

  run(runs: readonly Run[]): readonly Promise<Finish>[] {
    return runs.map((run) => this.#run(run));
  }

  async #run(run: Run): Promise<Finish> {
    this.inFlight.push(run.key);
    try {
      this.#judge(() => this.model.started(run, this.#now()));
      // Some take longer than their time, and longer than anybody waits. Half a millisecond: never just as it is
      // settled.
      const long = this.#chance(0.03) ? 1700 + this.#below(800) : this.#below(this.#chance(0.1) ? 900 : 30);
      if (this.#chance(0.7)) await this.#setting.clock.sleep(long + 0.5);
      return this.#outcome(run);
    } finally {
      this.inFlight.splice(this.inFlight.indexOf(run.key), 1);
    }
  }

  async lost({ key, run, failures }: { key: string; run: number; failures: number }): Promise<Ended> {
    const againAfterMs = keyBackoffMs(failures + 1);
    const dead = failures + 1 >= OPTIONS.maxAttempts;
    if (this.model.inFlightUntil(key, run) === undefined) this.model.doubt(key, this.#now() + againAfterMs);
    else this.#judge(() => this.model.settled(key, run, this.#now(), dead ? undefined : againAfterMs));
    return { kind: 'ended', failures: 'count', againAfterMs };
  }

  async passed(barrier: string): Promise<boolean> {
    return this.#now() >= (this.#barriers.get(barrier) ?? 0);
  }

  late(): void {}

  #outcome({ key, run, failures }: Run): Finish {
    const chance = this.#random();
    const nowMs = this.#now();
    if (chance < 0.02) return { kind: 'unknown' };
    if (chance < 0.06) {
      const untilMs = nowMs + this.#below(1500);
      this.model.prolonged(key, run, nowMs, untilMs);
      this.#busy.push({ key, run });
      return { kind: 'accepted', untilMs };
    }
    const finish = this.#known(failures);
    this.model.ended(key, run, nowMs, mayRunAgain(finish, failures));
    return finish;
  }

  #known(failures: number): Ended {
    const chance = this.#random();
    if (chance < 0.25)
      return { kind: 'ended', failures: 'count', againAfterMs: keyBackoffMs(failures + 1), error: 'no' };
    if (chance < 0.28) return { kind: 'ended', failures: 'keep', dead: true, error: 'never', againAfterMs: 10 };
    if (chance < 0.45) return { kind: 'ended', failures: 'forget', againAfterMs: this.#below(1500) };
    if (chance < 0.6) {
      const barrier = `b${this.#barriers.size}`;
      this.#barriers.set(barrier, this.#now() + this.#below(200));
      return { kind: 'ended', failures: 'forget', barrier };
    }
    return { kind: 'ended', failures: 'forget' };
  }

  async #step(): Promise<void> {
    const queue = this.#gateways[this.#below(this.#gateways.length)] as WorkQueue;
    const chance = this.#random();
    if (chance < 0.45)
      await this.#ask(this.#someKeys(), 0, async (keys) => {
        await queue.add(keys.map((key) => ({ key, reasons: [] })));
      });
    else if (chance < 0.52) await this.#ask(this.#someKeys(), 0, (keys) => queue.addLow(keys, 'initial'));
    else if (chance < 0.6) {
      const ms = this.#below(2000);
      await this.#ask([this.#someKey()], ms, ([key = '']) => queue.addAfter(key, ms));
    } else if (chance < 0.63) await this.#pauseOrResume(queue);
    else if (chance < 0.66) await this.#settleOne(queue);
    else if (chance < 0.67) await this.#replay(queue);
    else if (chance < 0.68) await this.#pauseAll();
    else if (chance < 0.69) this.#openOrCloseCircuit(queue);
    else if (chance < 0.69 + this.#crashes / 1000) await this.#crash();
    else await this.#setting.pass(this.#below(this.#chance(0.05) ? 1500 : 25));
  }

  async #ask(keys: readonly string[], ms: number, tell: (keys: readonly string[]) => Promise<void>): Promise<void> {
    this.#adds += keys.length;
    const causes = keys.map((key) => this.model.ask(key, this.#now() + ms));
    await tell(keys);
    for (const cause of causes) cause.asked = false;
  }

  async #pauseOrResume(queue: WorkQueue): Promise<void> {
    // More are ended than begun, or nothing would ever run.
    const [paused] = this.#pauses;
    if (paused !== undefined && this.#chance(0.6)) return this.#resume(paused);
    const scope = SCOPES[this.#below(SCOPES.length)] as PauseScope;
    this.#pauses.add(scope);
    this.model.pause(scope);
    await queue.pause(scope);
  }

  async #resume(scope: PauseScope): Promise<void> {
    this.#pauses.delete(scope);
    this.model.resume(scope, this.#now());
    await this.#gateways[0]?.resume(scope);
  }

  /** A busy run tells its outcome: in time, or long after it was given up. */
  async #settleOne(queue: WorkQueue): Promise<void> {
    const at = this.#below(this.#busy.length);
    const found = this.#busy[at];
    if (!found) return;
    const { key, run } = found;
    const deadlineMs = this.model.inFlightUntil(key, run);
    // Just now a gateway may be settling it.
    if (deadlineMs !== undefined && this.#now() >= deadlineMs + RUN_MARGIN_MS - 50) return;
    this.#busy.splice(at, 1);
    this.model.ended(key, run, this.#now(), undefined);
    const taken = await queue.settle(key, run, { kind: 'ended', failures: 'forget' });
    expect(taken, `the outcome of run ${run} of ${key}`).toBe(deadlineMs !== undefined);
  }

  async #replay(queue: WorkQueue): Promise<void> {
    const keys = (await queue.inspector.list('dead', { offset: 0, limit: 100 })).keys.map(({ key }) => key);
    // By the time they are looked at some may have been revived by an event.
    const causes = keys.map((key) => this.model.ask(key, this.#now(), false));
    await replayDeadLetters(queue, { keys });
    for (const cause of causes) cause.asked = false;
  }

  async #pauseAll(): Promise<void> {
    for (const queue of this.#gateways) queue.suspend();
    const [queue] = this.#gateways;
    if (queue)
      await this.#ask(this.#someKeys(), 0, async (keys) => {
        await queue.add(keys.map((key) => ({ key, reasons: [] })));
      });
    for (const each of this.#gateways) each.unsuspend();
  }

  /** Of one gateway at a time: the other starts all that there is. */
  #openOrCloseCircuit(queue: WorkQueue): void {
    const open = this.#gateways.find((each) => this.#openUntilMs.has(each));
    if (open && this.#chance(0.7)) {
      const isProbing = this.#chance(0.5);
      if (isProbing) this.#openUntilMs.set(open, this.#now());
      else this.#openUntilMs.delete(open);
      open.allow(isProbing ? 1 : Infinity);
    } else if (!open || open === queue) {
      this.#openUntilMs.set(queue, this.#now() + this.#below(3000));
      queue.allow(0);
    }
  }

  /** A gateway is gone in the middle of its runs, and another comes. */
  async #crash(): Promise<void> {
    const gone = this.#gateways.shift();
    await this.#openGateway();
    await gone?.stop(0);
  }

  async #openGateway(): Promise<void> {
    const queue = await this.#setting.open(OPTIONS);
    await queue.start({
      run: (runs) => runs.map((run) => this.#runUnlessOpen(run, queue)),
      lost: (run) => this.lost(run),
      passed: (barrier) => this.passed(barrier),
      late: () => {},
    });
    this.#gateways = [...this.#gateways, queue];
  }

  #check(): void {
    if (this.#faults.length > 0) throw this.#faults[0];
    this.model.checkInTime(this.#now());
  }

  #judge(judgement: () => void): void {
    try {
      judgement();
    } catch (error) {
      this.#faults.push(error);
    }
  }

  #now(): number {
    return this.#setting.clock.now();
  }

  #someKeys(): string[] {
    return [...new Set(Array.from({ length: 1 + this.#below(6) }, () => this.#someKey()))];
  }

  #someKey(): string {
    return KEYS[this.#below(KEYS.length)] as string;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #chance(part: number): boolean {
    return this.#random() < part;
  }
}

/** After how long the queue runs the key again by itself: not when it is a dead letter. */
function mayRunAgain({ dead, failures, againAfterMs }: Ended, failuresBefore: number): number | undefined {
  const usedUp = failures === 'count' && failuresBefore + 1 >= OPTIONS.maxAttempts;
  return dead || usedUp ? undefined : againAfterMs;
}
