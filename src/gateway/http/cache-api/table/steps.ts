/**
 * The steps of one cell: values that its path visits, and keys that its text sorts. A path of a few characters can
 * visit an object's values many times over, so neither the size of the object nor the length of the path bounds a cell.
 */
export const CELL_STEPS = 10_000;

/** Not a `PathError`, since a filter for existence ignores the errors of a path. */
export class TooManyStepsError extends Error {
  override readonly name = 'TooManyStepsError';
}

/** Counts the steps of a cell. */
export class Steps {
  #left = CELL_STEPS;

  /** Called before the work, so that the work is not done where it is too much. @throws TooManyStepsError */
  take(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new TooManyStepsError(`more than ${CELL_STEPS} steps`);
  }

  /** The keys of an object, each a step. @throws TooManyStepsError */
  keysOf(value: object): readonly string[] {
    if (WIDE.has(value)) this.take(Infinity);
    const keys = Object.keys(value);
    if (keys.length > CELL_STEPS) WIDE.add(value);
    this.take(keys.length);
    return keys;
  }
}

/** Objects with more keys than a cell has steps. To list 150,000 keys takes 16 ms, so only the first cell does it. */
const WIDE = new WeakSet<object>();
