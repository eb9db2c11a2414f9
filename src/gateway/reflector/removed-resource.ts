import { ApiError, type Logger } from '../../core/index.ts';

/** So many answers in a row of 404, with backoff between them, mean that the resource is gone and not just starting. */
const NOT_FOUND_MEANS_GONE = 3;

/**
 * Finds out whether a resource that answers 404 is no longer served. `found` is an answer of any other kind, `missing`
 * a 404 that changes nothing, `gone` the first by which all objects are known to be gone with the resource, and
 * `unserved` the first by which the kind is known to be served in other versions only.
 */
export class RemovedResource {
  readonly #versionsServed: (signal: AbortSignal) => Promise<string[]>;
  readonly #logger: Logger;
  #notFound = 0;
  /** The last list that was answered with `gone`; -1 for none since the resource was last served. */
  #goneList = -1;
  /** Told once that the kind is served in other versions only. */
  #servedElsewhere = false;

  /** @param versionsServed in which versions of its group the server has the kind. */
  constructor(versionsServed: (signal: AbortSignal) => Promise<string[]>, logger: Logger) {
    this.#versionsServed = versionsServed;
    this.#logger = logger;
  }

  /** It has been missing for a while, and that has been said. */
  get isLasting(): boolean {
    return this.#notFound > NOT_FOUND_MEANS_GONE;
  }

  /** The resource was listed: it is served. */
  reset(): void {
    this.#notFound = 0;
    this.#goneList = -1;
    this.#servedElsewhere = false;
  }

  /** @param list the list that is wanted: a caller that waits for a later one gets an answer of its own. */
  async check(error: unknown, list: number, signal: AbortSignal): Promise<'found' | 'missing' | 'gone' | 'unserved'> {
    if (!(error instanceof ApiError) || error.code !== 404) {
      this.#notFound = 0;
      return 'found';
    }
    this.#notFound += 1;
    if (this.#notFound < NOT_FOUND_MEANS_GONE || this.#goneList >= list) return 'missing';
    const served = await this.#served(signal);
    if (served === undefined) return 'missing';
    if (served.length > 0) {
      if (this.#servedElsewhere) return 'missing';
      this.#servedElsewhere = true;
      this.#logger.error({ served }, 'the apiserver no longer serves this version: its objects are kept as they were');
      return 'unserved';
    }
    this.#logger.warn({}, 'the apiserver no longer serves this resource: its objects are gone');
    this.#goneList = list;
    return 'gone';
  }

  /** Undefined when the apiserver does not tell. */
  async #served(signal: AbortSignal): Promise<string[] | undefined> {
    try {
      return await this.#versionsServed(signal);
    } catch {
      return undefined;
    }
  }
}
