import type { ViewKeys } from '../../contract/cache-layout.ts';
import { loadScript, type Redis, type Script } from '../redis/redis.ts';

/** Another gateway has written its ID into the view: this one must stop writing and see whether it still leads. */
export class ForeignWriterError extends Error {
  override readonly name = 'ForeignWriterError';
}

/**
 * The right to write to one view: the ID that the view's HASH carries. Every write is a script that compares the ID
 * first and changes nothing when another one stands there; then each method here throws ForeignWriterError. Where Redis
 * has lost the ID, writes are refused as well, until `reclaim`.
 */
export class ViewWriter {
  readonly #redis: Redis;
  readonly #name: string;
  readonly #viewKey: string;
  readonly #objectsKey: string;
  readonly #write: Script;
  readonly #onFailure: () => void;
  #id = '';

  /**
   * @param name of the view, for errors.
   * @param keys of the view; its HASH `view` carries the ID.
   * @param onFailure called when the writer changes or a write fails: remembered values of the view may be wrong.
   */
  constructor(redis: Redis, name: string, keys: ViewKeys, onFailure: () => void) {
    this.#redis = redis;
    this.#name = name;
    this.#viewKey = keys.view;
    this.#objectsKey = keys.objects;
    this.#onFailure = onFailure;
    this.#write = loadScript(redis, import.meta.url, 'write');
  }

  /** Whether this writer has the ID. */
  is(id: string | undefined): boolean {
    return id === this.#id && id !== '';
  }

  /** Becomes the writer in place of any other. */
  async claim(id: string): Promise<void> {
    this.#id = id;
    this.#onFailure();
    await this.#redis.hset(this.#viewKey, 'writerId', id);
  }

  /** Is the writer no longer: what is still under way here fails as with another gateway's ID. */
  release(): void {
    this.#id = '';
    this.#onFailure();
  }

  /** Becomes the writer again where Redis has lost its ID. @throws ForeignWriterError */
  async reclaim(): Promise<void> {
    this.#onFailure();
    if ((await this.#redis.hsetnx(this.#viewKey, 'writerId', this.#id)) === 1) return;
    if ((await this.#redis.hget(this.#viewKey, 'writerId')) !== this.#id) throw this.#foreign();
  }

  /**
   * Runs a script that takes the view's HASH and the writer's ID before the keys and arguments given here.
   * @returns the script's answer.
   * @throws ForeignWriterError
   */
  async run(script: Script, keys: readonly string[], args: readonly (string | number | Buffer)[]): Promise<unknown> {
    try {
      const answer = await script([this.#viewKey, ...keys], [this.#id, ...args]);
      if (answer === -1) throw this.#foreign();
      return answer;
    } catch (error) {
      this.#onFailure();
      throw error;
    }
  }

  /** Sets fields of the view's HASH. @throws ForeignWriterError */
  async set(fields: Readonly<Record<string, string>>): Promise<void> {
    await this.run(this.#write, [this.#objectsKey], ['', ...Object.entries(fields).flat()]);
  }

  /** Counts a field of the view's HASH up by one. @throws ForeignWriterError */
  async increment(field: string): Promise<void> {
    await this.run(this.#write, [this.#objectsKey], [field]);
  }

  #foreign(): ForeignWriterError {
    return new ForeignWriterError(`the view of ${this.#name} was taken by another gateway`);
  }
}
