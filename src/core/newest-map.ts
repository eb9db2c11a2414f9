/**
 * A map that keeps the entries that were set last, so that a memory of what may be asked again has a bound. `set` moves
 * its key to the end; the first entry leaves when there are more than `most`.
 */
export class NewestMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number;
  readonly #onLeft: (value: Value) => void;

  /** @param onLeft is called with each value that has left for a newer one. */
  constructor(most: number, onLeft: (value: Value) => void = () => {}) {
    super();
    this.#most = most;
    this.#onLeft = onLeft;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size <= this.#most) return this;
    for (const [oldest, left] of this) {
      this.delete(oldest);
      this.#onLeft(left);
      break;
    }
    return this;
  }
}
