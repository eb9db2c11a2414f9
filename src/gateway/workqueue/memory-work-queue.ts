import { MemoryInspector } from './memory-inspector.ts';
import { MemoryJobs } from './memory-jobs.ts';
import { MemoryRecords } from './memory-records.ts';
import { MemoryStore } from './memory-store.ts';
import { RecordedWorkQueue, type RecordedWorkQueueOptions } from './recorded-work-queue.ts';

/**
 * The work queue without Redis, for tests: the same promises, kept for as long as the process lives. Two queues on one
 * store are two gateways on one queue.
 */
export class MemoryWorkQueue extends RecordedWorkQueue {
  readonly #store: MemoryStore;

  constructor(options: RecordedWorkQueueOptions, store: MemoryStore = new MemoryStore()) {
    const records = new MemoryRecords(store, options);
    super(options, {
      records,
      inspector: new MemoryInspector(store),
      jobs: new MemoryJobs(store, options.concurrency),
    });
    this.#store = store;
  }

  override async obliterate(): Promise<void> {
    this.#store.clear();
  }
}
