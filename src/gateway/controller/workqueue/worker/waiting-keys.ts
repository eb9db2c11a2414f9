import type { StartRequest } from '../records/records.ts';

/** A key that waits for its start. */
export interface Waiting {
  readonly request: StartRequest;
  /** Whether the key is in a job of BullMQ, which waits for it. */
  readonly hasJob: boolean;
  readonly entry: Entry | undefined;
}

/** Keys that entered together. */
interface Entry {
  remaining: number;
  readonly undecided: string[];
  readonly resolve: (undecided: readonly string[]) => void;
}

/** The keys that wait for their start in this gateway, first come, first in line. */
export class WaitingKeys {
  #waiting: Waiting[] = [];

  get size(): number {
    return this.#waiting.length;
  }

  /** Resolves when all have left. @returns the keys that have left undecided. */
  enter(requests: readonly StartRequest[], hasJob: boolean): Promise<readonly string[]> {
    return new Promise((resolve) => {
      if (requests.length === 0) return resolve([]);
      const entry = { remaining: requests.length, undecided: [], resolve };
      for (const request of requests) this.#waiting.push({ request, hasJob, entry });
    });
  }

  /**
   * Puts a key at the head of the line. No caller waits for it. It counts as a key with a job, because its timer brings
   * it back if it does not start here.
   */
  enterFirst(request: StartRequest): void {
    this.#waiting.unshift({ request, hasJob: true, entry: undefined });
  }

  /** The first keys, `count` at most. */
  take(count: number): readonly Waiting[] {
    return this.#waiting.splice(0, count);
  }

  /** Keys that were taken wait again, before all others. */
  putBack(taken: readonly Waiting[]): void {
    this.#waiting.unshift(...taken);
  }

  /** A key that was taken has left. @param isUndecided another gateway may start it. */
  leave({ entry, request }: Waiting, isUndecided = false): void {
    if (!entry) return;
    if (isUndecided) entry.undecided.push(request.key);
    entry.remaining -= 1;
    if (entry.remaining === 0) entry.resolve(entry.undecided);
  }

  /** All keys leave undecided. */
  leaveAll(): void {
    for (const waiting of this.take(Infinity)) this.leave(waiting, true);
  }
}
