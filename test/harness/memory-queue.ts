import { type Clock, silentMetrics } from '../../src/core/index.ts';
import { MemoryStore } from '../../src/gateway/workqueue/memory-store.ts';
import { MemoryWorkQueue } from '../../src/gateway/workqueue/memory-work-queue.ts';
import type { QueueOptions } from '../../src/gateway/workqueue/work-queue.ts';
import { noting } from './redis-queue.ts';

/** One queue in memory, and any number of gateways on it. */
export class MemoryQueueFixture {
  readonly store = new MemoryStore();
  readonly clock: Clock;
  readonly troubles: string[] = [];
  readonly #opened: MemoryWorkQueue[] = [];
  #concurrency = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  async open(options: Partial<QueueOptions> = {}): Promise<MemoryWorkQueue> {
    const { clock, store } = this;
    const common = { name: 'controller', concurrency: 4, timeoutMs: 15_000, clock, metrics: silentMetrics };
    const queue = new MemoryWorkQueue({ ...common, logger: noting(this.troubles), ...options }, store);
    this.#concurrency = options.concurrency ?? 4;
    this.#opened.push(queue);
    return queue;
  }

  async pending(): Promise<number> {
    const { waiting, out, timers, debounced, inFlight, backlog, held } = this.store;
    return [waiting, out, timers, debounced, inFlight, backlog, ...held.values()].reduce(
      (sum, { size }) => sum + size,
      0,
    );
  }

  async unsettled(running: number, lateMs: number): Promise<boolean> {
    const { timers, debounced, inFlight, waiting, out } = this.store;
    const before = this.clock.now() - lateMs;
    const due = [timers, debounced, inFlight].some((set) => [...set.values()].some((atMs) => atMs <= before));
    return due || out.size > running || (waiting.size > 0 && out.size < this.#concurrency);
  }

  async loseJobs(): Promise<void> {
    this.store.waiting.clear();
    this.store.again.clear();
  }

  async records(): Promise<number> {
    return this.store.records.size;
  }

  async close(): Promise<void> {
    for (const queue of this.#opened) await queue.stop(0);
  }
}
