import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import type { Description, SigningKey } from '../../contract/index.ts';
import { Endpoint } from '../dispatch/endpoint.ts';
import { describeFunction } from './describe.ts';

export interface FunctionRegistryOptions {
  readonly urls: readonly string[];
  readonly keys: readonly SigningKey[];
  /** See `EndpointOptions`. */
  readonly ca: string | undefined;
  /** Starts the controller that a function has described. Rejecting means: ask again later. */
  readonly add: (description: Description, url: string) => Promise<void>;
  /** Whether a controller has to be started anew, as its kinds are served in another form by now. */
  readonly outdated: (description: Description) => boolean;
  /** Starts it anew. Rejecting means: try again later. */
  readonly change: (description: Description, url: string) => Promise<void>;
  /** Every function has its controller. */
  readonly complete: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Asks each function what its controller is until it answers, in any order and independently: one that is down, or
 * describes something the cluster does not have, keeps no other waiting.
 */
export class FunctionRegistry {
  readonly #options: FunctionRegistryOptions;
  /** Functions without a controller yet, and why. */
  readonly #awaited: Map<string, string>;
  /** What those with a controller have said, by URL. */
  readonly #described = new Map<string, Description>();
  #asking: Promise<unknown> = Promise.resolve();

  constructor(options: FunctionRegistryOptions) {
    this.#options = options;
    this.#awaited = new Map(options.urls.map((url) => [url, 'not asked yet']));
  }

  start(signal: AbortSignal): void {
    this.#asking = this.#askAll(signal);
  }

  /** Resolves when nothing is being asked any more, after the signal of `start` was aborted. */
  async stopped(): Promise<void> {
    await this.#asking;
  }

  /** Undefined when every function has its controller, else the first that has not. */
  trouble(): string | undefined {
    const [first] = this.#awaited;
    return first && `${first[0]}: ${first[1]}`;
  }

  async #askAll(signal: AbortSignal): Promise<void> {
    const { urls, complete } = this.#options;
    await Promise.all(urls.map((url) => this.#ask(url, signal)));
    if (!signal.aborted) await complete();
    await this.#keepUp(signal);
  }

  /** A definition may be replaced at any time by one of another scope. */
  async #keepUp(signal: AbortSignal): Promise<void> {
    const { change, clock, logger, outdated } = this.#options;
    while (!signal.aborted) {
      await clock.sleep(MAX_WAIT_MS, signal);
      for (const [url, description] of this.#described) {
        if (signal.aborted || !outdated(description)) continue;
        logger.info(
          { url, controller: description.name },
          'a kind is served in another scope: starting its controller anew',
        );
        await change(description, url).catch((error: unknown) => {
          logger.warn({ url, error: messageOf(error) }, 'a controller could not be started anew, trying again');
        });
      }
    }
  }

  async #ask(url: string, signal: AbortSignal): Promise<void> {
    const { add, ca, clock, keys, logger } = this.#options;
    let waitMs = FIRST_WAIT_MS;
    while (!signal.aborted) {
      // The controller gets an endpoint of its own, with as many connections as it may use.
      const endpoint = new Endpoint(url, keys, { connections: 1, ca });
      try {
        const description = await describeFunction(endpoint);
        await add(description, url);
        this.#described.set(url, description);
        this.#awaited.delete(url);
        return;
      } catch (error) {
        const message = messageOf(error);
        if (!signal.aborted && this.#awaited.get(url) !== message) {
          logger.warn({ url, error: message }, 'a function cannot be used yet, asking again');
        }
        this.#awaited.set(url, message);
      } finally {
        await endpoint.close();
      }
      await clock.sleep(waitMs, signal);
      waitMs = Math.min(waitMs * 2, MAX_WAIT_MS);
    }
  }
}

const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 5000;
