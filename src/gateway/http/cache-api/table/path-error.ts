/** A text that is no path, or a path that does not fit an object. */
export class PathError extends Error {
  /** The values that client-go returns along with the error. A filter for existence ignores the error. */
  readonly results: readonly unknown[];

  constructor(message: string, results: readonly unknown[] = []) {
    super(message);
    this.results = results;
  }
}
