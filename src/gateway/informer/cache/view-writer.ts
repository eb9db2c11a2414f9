import type { ViewKeys } from '../../../contract/cache-layout.ts';
import { loadScript, type Redis, type Script } from '../../../ground/redis/redis.ts';

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
  readonly #reclaim: Script;
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
    this.#reclaim = loadScript(redis, import.meta.url, 'reclaim');
    this.#write = loadScript(redis, import.meta.url, 'write');
  }

  /** Whether this gateway writes the view, as far as it knows. */
  get isWriter(): boolean {
    return this.#id !== '';
  }

  /** Whether this writer has the ID. */
  is(id: string | undefined): boolean {
    return id === this.#id && id !== '';
  }

  /** Becomes the writer in place of any other: from now on the scripts refuse every other writer ID. */
  async claim(id: string): Promise<void> {
    this.#id = id;
    this.#onFailure();
    await this.#redis.hset(this.#viewKey, 'writerId', id);
  }

  /**
   * Ends the role of writer: work that is still under way fails as if another gateway had taken the view. The ID in
   * Redis stays for the next writer.
   */
  release(): void {
    this.#id = '';
    this.#onFailure();
  }

  /** Becomes the writer again before a list, even if Redis has lost the view's ID. @throws ForeignWriterError */
  async reclaim(): Promise<void> {
    this.#onFailure();
    await this.run(this.#reclaim, [], []);
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

  /**
   * Sets fields of the view's HASH.
   * @param position the highest that this gateway has seen: a new incarnation goes on behind it. Default: none.
   * @returns the view's position.
   * @throws ForeignWriterError
   */
  async set(fields: Readonly<Record<string, string>>, position = 0): Promise<number> {
    return Number(await this.run(this.#write, [this.#objectsKey], ['', position, ...Object.entries(fields).flat()]));
  }

  /** Counts a field of the view's HASH up by one. @throws ForeignWriterError */
  async increment(field: string): Promise<void> {
    await this.run(this.#write, [this.#objectsKey], [field, 0]);
  }

  #foreign(): ForeignWriterError {
    return new ForeignWriterError(`the view of ${this.#name} was taken by another gateway`);
  }
}
