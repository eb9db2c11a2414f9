export interface Aged {
  readonly name: string;
  /** As the apiserver writes it, which sorts by time. */
  readonly createdAt: string;
}

/**
 * The objects of a namespace in the order of their age. The first `max` are within its limit. A binary search places an
 * object, so a namespace with very many of them costs the thread no sort at each event.
 */
export class OldestFirst<T extends Aged> {
  readonly #max: number;
  readonly #all: T[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#all.length;
  }

  /** @returns the object that is beyond the limit from now on because the new one is within it. */
  add(object: T): T | undefined {
    const at = this.#positionOf(object);
    this.#all.splice(at, 0, object);
    return at < this.#max ? this.#all[this.#max] : undefined;
  }

  /** @returns the object that is within the limit from now on because the deleted one was. */
  delete(object: T): T | undefined {
    const at = this.#all.indexOf(object);
    if (at < 0) return undefined;
    this.#all.splice(at, 1);
    return at < this.#max ? this.#all[this.#max - 1] : undefined;
  }

  isWithin(object: T): boolean {
    return this.#positionOf(object) < this.#max;
  }

  /** How many objects are older. */
  #positionOf(object: T): number {
    let [from, to] = [0, this.#all.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const other = this.#all[middle];
      if (other && isOlder(other, object)) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

/** Of the same second, by name. */
function isOlder(a: Aged, b: Aged): boolean {
  return a.createdAt === b.createdAt ? a.name < b.name : a.createdAt < b.createdAt;
}
