import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect } from 'vitest';
import type { Reason } from '../../../src/contract/index.ts';
import { MIN_POLL_INTERVAL_MS } from '../../../src/gateway/controller/workqueue/worker/poller.ts';
import type { Finish, QueueOptions, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { VirtualClock } from '../../harness/test-clock.ts';

/** See `WorkQueueOptions`. */
export interface HistoryOptions {
  readonly historyRuns?: number;
}

/** One queue of an implementation, for this test alone. */
export interface WorkQueueFixture {
  /** One more gateway on the same queue. */
  open(options?: Partial<QueueOptions>, history?: HistoryOptions): Promise<WorkQueue>;
  /** How many keys wait for anything, now or later; runs in flight included. */
  pending(): Promise<number>;
  /**
   * Whether anything still happens for which no time need pass, while `running` runs are in the middle. What is due
   * for less than `lateMs` may need some.
   */
  unsettled(running: number, lateMs: number): Promise<boolean>;
  /** Deletes all waiting jobs, as an operator or an eviction might. */
  loseJobs(): Promise<void>;
  /** Deletes everything of the queue. */
  lose(): Promise<void>;
  /** Of how many keys anything is on record. */
  records(): Promise<number>;
  /** Warnings and errors that were logged. */
  readonly troubles: string[];
  close(): Promise<void>;
}

export type CreateFixture = (clock: VirtualClock) => Promise<WorkQueueFixture>;

export const because = (resourceVersion: string): Reason => ({
  type: 'updated',
  object: 'v1/Pod a/b',
  resourceVersion,
});
export const plain = (...keys: string[]) => keys.map((key) => ({ key, reasons: [] }));
export const numbered = (stem: string, count: number): string[] =>
  Array.from({ length: count }, (_, at) => `${stem}${at}`);

/** Something that is given runs. */
export interface Watched {
  /** Keys running now. */
  readonly inFlight: readonly string[];
  /** Keys of which two runs were seen at a time. */
  readonly overlaps: readonly string[];
}

/** One test's queue, what it runs, and its time. */
export class Setting {
  readonly clock = new VirtualClock();
  readonly #fixture: WorkQueueFixture;
  readonly #processes: Watched[] = [];
  #closed = false;
  /** How late a timer may be: as far as two looks of a poller are apart. */
  lateMs = MIN_POLL_INTERVAL_MS;
  queue!: WorkQueue;
  process!: RecordingProcess;

  private constructor(fixture: WorkQueueFixture, clock: VirtualClock) {
    this.#fixture = fixture;
    this.clock = clock;
  }

  /** @param open whether to open a queue and make a process for it. */
  static async create(create: CreateFixture, open = true): Promise<Setting> {
    const clock = new VirtualClock();
    const setting = new Setting(await create(clock), clock);
    if (open) {
      setting.queue = await setting.open();
      setting.process = setting.newProcess();
    }
    return setting;
  }

  open(options?: Partial<QueueOptions>, history?: HistoryOptions): Promise<WorkQueue> {
    return this.#fixture.open(options, history);
  }

  /** What a gateway runs. Its runs count as going on for `settle`. */
  newProcess(): RecordingProcess {
    const process = new RecordingProcess(this.clock);
    this.#processes.push(process);
    return process;
  }

  /** Its runs count as going on for `settle`. */
  watch(process: Watched): void {
    this.#processes.push(process);
  }

  /** Runs of `key` that start stay in flight until they are let go. */
  blockRuns(key: string): { release: (finish?: Finish) => void } {
    const { promise, resolve } = Promise.withResolvers<Finish>();
    this.process.onRun = (run) => (run.key === key ? promise : done);
    return {
      release: (finish = done) => {
        this.process.onRun = () => done;
        resolve(finish);
      },
    };
  }

  /** Until everything has happened for which no time need pass. */
  async settle(): Promise<void> {
    const inFlight = (): number => this.#processes.reduce((sum, process) => sum + process.inFlight.length, 0);
    await eventually(
      async () => {
        // Everything that needs no more than this turn of the event loop is done after it.
        await setImmediate();
        expect(await this.#fixture.unsettled(inFlight(), this.lateMs)).toBe(false);
      },
      60_000,
      1,
    );
  }

  /** A while of real time, for what must not happen at rest. */
  async wait(): Promise<void> {
    await sleep(50);
  }

  /** Time passes: each sleeper wakes at its own time, and what they do then is done before it goes on. */
  async pass(ms: number): Promise<void> {
    const end = this.clock.now() + ms;
    await this.settle();
    while (this.clock.now() < end) {
      this.clock.step(end);
      await this.settle();
    }
  }

  /** Passes time in small steps until `condition` is true. */
  async until(condition: () => boolean | Promise<boolean>, what: string, limitMs = 30_000): Promise<void> {
    const end = this.clock.now() + limitMs;
    await this.settle();
    while (!(await condition())) {
      if (this.clock.now() >= end) throw new Error(`after ${limitMs} ms still not: ${what}`);
      await this.pass(5);
    }
  }

  async ran(key: string, times = 1): Promise<void> {
    await this.until(() => this.process.runsOf(key).length >= times, `${times} runs of ${key}`);
  }

  /** Until nothing waits and nothing runs, timers included. */
  async atRest(): Promise<void> {
    await this.until(async () => (await this.#fixture.pending()) === 0, 'at rest');
  }

  pending(): Promise<number> {
    return this.#fixture.pending();
  }

  loseJobs(): Promise<void> {
    return this.#fixture.loseJobs();
  }

  /** Deletes everything of the queue. */
  lose(): Promise<void> {
    return this.#fixture.lose();
  }

  records(): Promise<number> {
    return this.#fixture.records();
  }

  /** Warnings and errors so far, which a test expects. */
  takeTroubles(): string[] {
    return this.#fixture.troubles.splice(0);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#fixture.close();
    for (const { overlaps } of this.#processes) expect(overlaps).toEqual([]);
    expect(this.#fixture.troubles).toEqual([]);
  }
}

/** A setting for each test of the suite that calls it. */
export function eachSetting(create: CreateFixture): () => Setting {
  let setting: Setting;
  beforeEach(async () => {
    setting = await Setting.create(create);
  });
  afterEach(() => setting.close());
  return () => setting;
}
