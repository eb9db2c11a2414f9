import { ApiError, type Logger } from '../../../core/index.ts';

/** How many 404 answers in a row, with backoff between them, mean that the resource is gone and not just starting. */
const NOT_FOUND_MEANS_GONE = 3;

/**
 * Finds out whether a resource that answers 404 is no longer served. `found`: any other answer. `missing`: a 404 that
 * changes nothing. `gone`: the first answer that shows that all objects are gone with the resource. `unserved`: the
 * first answer that shows that the kind is served in other versions only.
 */
export class RemovedResource {
  readonly #versionsServed: (signal: AbortSignal) => Promise<string[]>;
  readonly #logger: Logger;
  #notFound = 0;
  /** The last list that was answered with `gone`; -1 for none since the resource was last served. */
  #goneList = -1;
  /** Whether the log already has the message that the kind is served in other versions only. */
  #servedElsewhere = false;

  /**
   * @param versionsServed returns the versions of its group that the server has the resource in. A definition that
   *   came back with another plural or scope is another one: the objects are gone.
   */
  constructor(versionsServed: (signal: AbortSignal) => Promise<string[]>, logger: Logger) {
    this.#versionsServed = versionsServed;
    this.#logger = logger;
  }

  /** Whether the resource has been missing for a while, which has been reported. */
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

  /** Undefined when the apiserver does not answer. */
  async #served(signal: AbortSignal): Promise<string[] | undefined> {
    try {
      return await this.#versionsServed(signal);
    } catch {
      return undefined;
    }
  }
}
