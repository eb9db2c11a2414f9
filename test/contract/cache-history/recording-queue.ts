import { randomUUID } from 'node:crypto';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import type { QueueState } from '../../../src/gateway/controller/workqueue/records/queue-record.ts';
import { description, sightOf, type Snapshot } from './kinds.ts';

interface Durable {
  incarnation?: string;
  runId?: string;
  initial?: string;
  resyncAtMs?: number;
  /** By key: what a run that started at its last add would have seen in the cache. */
  seen: Map<string, Sight>;
}

interface Sight {
  /** The number of the add. */
  readonly add: number;
  readonly text: string;
}

/** The parts of a queue that the controller and the recovery of these histories use. */
type RecordedParts = Pick<
  BullMqWorkQueue,
  'name' | 'add' | 'addLow' | 'leftOut' | 'putBackRuns' | 'suspend' | 'unsuspend'
> & {
  readonly gate: Pick<BullMqWorkQueue['gate'], 'closed' | 'ended'>;
  readonly ownRuns: Pick<BullMqWorkQueue['ownRuns'], 'highest'>;
  readonly record: Pick<BullMqWorkQueue['record'], 'state' | 'renew' | 'setInitial' | 'setResyncAt'>;
  readonly inspector: Pick<BullMqWorkQueue['inspector'], 'pauses'>;
};

/**
 * A queue that runs nothing, and remembers for each key what the cache showed when it was added last: a function that
 * runs then sees that or something newer. It outlives gateways, as Redis does.
 */
export class RecordingQueue {
  readonly #look: () => Promise<Snapshot>;
  #kept: Durable = { seen: new Map() };
  #adds = 0;

  constructor(look: () => Promise<Snapshot>) {
    this.#look = look;
  }

  /** What a run of this key, started at its last add, has seen. */
  seen(key: string): string | undefined {
    return this.#kept.seen.get(key)?.text;
  }

  get adds(): number {
    return this.#adds;
  }

  get initial(): string | undefined {
    return this.#kept.initial;
  }

  async add(wakeups: readonly { readonly key: string }[], alive: () => boolean): Promise<void> {
    await this.#note(
      wakeups.map(({ key }) => key),
      alive,
    );
  }

  /** For a rollback of Redis. */
  copy(): () => void {
    const copy = { ...this.#kept, seen: new Map(this.#kept.seen) };
    return () => (this.#kept = { ...copy, seen: new Map(copy.seen) });
  }

  /** Redis has lost everything. */
  clear(): void {
    this.#kept = { seen: new Map() };
  }

  /** The part of a queue that a controller and the recovery use. A dead gateway's calls have no effect. */
  forGateway(alive: () => boolean): BullMqWorkQueue {
    const write = async (change: Partial<Durable>): Promise<void> => {
      if (alive()) Object.assign(this.#kept, change);
    };
    const queue: RecordedParts = {
      name: description.name,
      add: async (keys) => {
        await this.add(keys, alive);
        return [];
      },
      addLow: (keys) => this.#note(keys, alive),
      record: {
        state: async (): Promise<QueueState> => {
          const { incarnation, runId, initial, resyncAtMs } = this.#kept;
          return { incarnation, isForeign: false, runId, initial, resyncAtMs };
        },
        renew: (runId: string) => write({ incarnation: randomUUID(), runId }),
        setInitial: (initial: string) => write({ initial }),
        setResyncAt: (resyncAtMs: number) => write({ resyncAtMs }),
      },
      // No run is in flight in these histories, nothing is paused, and there is memory for all keys.
      gate: { closed: false, ended: false },
      ownRuns: { highest: 0 },
      leftOut: () => undefined,
      putBackRuns: async () => {},
      inspector: { pauses: async () => ({ pauses: [] }) },
      suspend() {},
      unsuspend() {},
    };
    return queue as unknown as BullMqWorkQueue;
  }

  async #note(keys: readonly string[], alive: () => boolean): Promise<void> {
    if (!alive() || keys.length === 0) return;
    const kept = this.#kept;
    const add = (this.#adds += 1);
    const snapshot = await this.#look();
    // Lost with Redis meanwhile.
    if (kept !== this.#kept) return;
    for (const key of keys) {
      // A later add may have looked sooner.
      if ((kept.seen.get(key)?.add ?? 0) < add) kept.seen.set(key, { add, text: sightOf(key, snapshot) });
    }
  }
}
