import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const FILLER = 'filler';
const ROOM = 64 * 2 ** 20;
const PIECE = Buffer.alloc(32 * 1024);

/** Takes the memory of a Redis that a test has for itself, and gives it back. */
export class FullRedis {
  readonly #redis: Redis;
  /** Writes that were refused for want of memory. */
  refused = 0;

  constructor(url: string) {
    this.#redis = new Redis(url);
  }

  /** From here on it may use this much more than now. */
  async limit(): Promise<void> {
    const used = Number(/^used_memory:(\d+)/m.exec(await this.#redis.info('memory'))?.[1]);
    await this.#redis.config('SET', 'maxmemory', used + ROOM);
  }

  /** Keeps it at its limit until `signal` is aborted, and gives all back then. */
  async keepFull(signal: AbortSignal): Promise<void> {
    await this.#redis.setrange(FILLER, ROOM - 2 ** 20, 'x');
    while (!signal.aborted) {
      // What others free meanwhile is taken too.
      while (!signal.aborted && (await this.#takePiece()));
      await sleep(5);
    }
    await this.#redis.del(FILLER);
  }

  async setPolicy(policy: string): Promise<void> {
    await this.#redis.config('SET', 'maxmemory-policy', policy);
  }

  close(): void {
    this.#redis.disconnect();
  }

  /** @returns false when it was refused. */
  async #takePiece(): Promise<boolean> {
    try {
      await this.#redis.append(FILLER, PIECE);
      return true;
    } catch {
      this.refused += 1;
      return false;
    }
  }
}
