import { randomUUID } from 'node:crypto';
import type { Redis } from '../../../../ground/redis/redis.ts';

/** The fields of a queue as a whole. */
export interface QueueState {
  readonly incarnation: string | undefined;
  /**
   * Whether the data belong to another owner of the name, earlier or later, or a removal has left a part of them.
   */
  readonly isForeign: boolean;
  readonly runId: string | undefined;
  /** `Resyncer` has queued all keys for this hash of the declaration and its views. */
  readonly initial: string | undefined;
  /** When all keys are queued again. */
  readonly resyncAtMs: number | undefined;
}

export interface QueueRecordOptions {
  readonly redis: Redis;
  /** The queue's HASH. */
  readonly key: string;
  /** See `WorkQueueOptions.location`. */
  readonly owner: string | undefined;
  /** Writes BullMQ's metadata of the queue. */
  readonly recordSettings: () => Promise<void>;
  /** Waits for a write, after which keys may be due. */
  readonly written: (write: Promise<unknown>) => Promise<unknown>;
  /**
   * Whether the queue has stopped, and nothing more may be written: its controller may have been removed with all data,
   * and a repair or a resync that was under way would leave the hash for good.
   */
  readonly hasEnded: () => boolean;
}

/** The HASH of a queue: whose it is, on which Redis process it was found in order, and when all keys were queued. */
export class QueueRecord {
  readonly #options: QueueRecordOptions;

  constructor(options: QueueRecordOptions) {
    this.#options = options;
  }

  /** The queue's state as Redis has it now. */
  async state(): Promise<QueueState> {
    const { key, owner: own, redis } = this.#options;
    const fields = ['incarnation', 'owner', 'runId', 'initial', 'resyncAt'] as const;
    const [incarnation, owner, runId, initial, resyncAt] = await redis.hmget(key, ...fields);
    // The queue of a configured function has no owner.
    const isOthers = own !== undefined && typeof owner === 'string' && owner !== own;
    // A removal deletes the incarnation first.
    const isPartlyRemoved = typeof incarnation !== 'string' && typeof runId === 'string';
    return {
      incarnation: incarnation ?? undefined,
      isForeign: isOthers || isPartlyRemoved,
      runId: runId ?? undefined,
      initial: initial ?? undefined,
      resyncAtMs: resyncAt ? Number(resyncAt) : undefined,
    };
  }

  /** Begins a new incarnation on this Redis process. */
  async renew(runId: string): Promise<void> {
    const { hasEnded, owner, recordSettings } = this.#options;
    if (hasEnded()) return;
    await recordSettings();
    await this.#write({ incarnation: randomUUID(), runId, ...(owner === undefined ? {} : { owner }) });
  }

  /** Records that all keys of the controller were queued for this hash of the declaration and its views. */
  async setInitial(initial: string): Promise<void> {
    await this.#write({ initial });
  }

  async setResyncAt(atMs: number): Promise<void> {
    await this.#write({ resyncAt: atMs });
  }

  async #write(fields: Readonly<Record<string, string | number>>): Promise<void> {
    const { hasEnded, key, redis, written } = this.#options;
    if (!hasEnded()) await written(redis.hset(key, fields));
  }
}
