import { backoffMs, messageOf, type Runtime, UserError } from '../../core/index.ts';
import type { Description } from '../../contract/index.ts';
import type { ConfiguredFiles } from '../../ground/config/files.ts';
import { isReservedName } from '../controller/workqueue/queue-keys.ts';
import { Endpoint } from '../controller/endpoint/endpoint.ts';
import { describeFunction } from '../controller/endpoint/describe.ts';

export interface ConfiguredFunctionsOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly urls: readonly string[];
  readonly files: Pick<ConfiguredFiles, 'ca' | 'keys'>;
  /** How often the cluster is asked how it serves the kinds of a controller. */
  readonly reviewMs: number;
  /**
   * Starts the controller that a function has described. Rejecting means: ask again later.
   * @param onWaiting to be called when the controller only waits for its views to be complete.
   */
  readonly add: (description: Description, url: string, onWaiting: () => void) => Promise<void>;
  /**
   * Whether a controller has to be started anew: its kinds are served in another form by now, or it does not run. Never
   * rejects.
   * @param isReview whether the cluster is asked, too.
   */
  readonly outdated: (description: Description, isReview: boolean) => Promise<boolean>;
  /** Starts it anew. Rejecting means: try again later. */
  readonly change: (description: Description, url: string) => Promise<void>;
  /**
   * Called when every function has had its controller.
   * @param names of all controllers, including controllers that do not run now.
   */
  readonly complete: (names: ReadonlySet<string>) => Promise<void>;
}

/**
 * Asks each function for its description until it answers, then starts its controller, and restarts it when the scope
 * or the plural of a kind changes. Functions are independent: a function that is down, that names a kind which the
 * cluster does not have, or whose kinds are never listed completely, delays no other.
 */
export class ConfiguredFunctions {
  readonly #options: ConfiguredFunctionsOptions;
  /** Functions without a controller yet, or whose controller could not be started anew, and why. */
  readonly #awaited: Map<string, string>;
  /** The descriptions of the functions that have had a controller, by URL; they keep their names. */
  readonly #described = new Map<string, Description>();
  #asking: Promise<unknown> = Promise.resolve();

  constructor(options: ConfiguredFunctionsOptions) {
    this.#options = options;
    this.#awaited = new Map(options.urls.map((url) => [url, 'not asked yet']));
  }

  start(signal: AbortSignal): void {
    this.#asking = this.#run(signal);
  }

  /** Resolves when nothing is being asked any more, after the signal of `start` was aborted. */
  async stopped(): Promise<void> {
    await this.#asking;
  }

  /**
   * Undefined when every function has its controller as it has to be, else the first that has not. A controller that
   * waits for its views counts as there: a gateway that follows cannot complete them.
   */
  notReady(): string | undefined {
    const [first] = this.#awaited;
    return first && `${first[0]}: ${first[1]}`;
  }

  /** Each function with the name of its controller, and why that does not run as it has to, if so. */
  all(): { url: string; controller: string | undefined; problem: string | undefined }[] {
    return this.#options.urls.map((url) => ({
      url,
      controller: this.#described.get(url)?.name,
      problem: this.#awaited.get(url),
    }));
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { urls, complete } = this.#options;
    const asking = urls.map((url) => this.#ask(url, signal));
    const keeping = urls.map(async (url, at) => {
      await asking[at];
      await this.#keepUp(url, signal);
    });
    await Promise.all(asking);
    if (!signal.aborted) await complete(new Set([...this.#described.values()].map(({ name }) => name)));
    await Promise.all(keeping);
  }

  /**
   * A definition may be replaced at any time by one of another scope or plural; and a start that fails may leave no
   * controller behind.
   */
  async #keepUp(url: string, signal: AbortSignal): Promise<void> {
    const { outdated, reviewMs, runtime } = this.#options;
    const { clock } = runtime;
    const description = this.#described.get(url);
    if (!description) return;
    let reviewAtMs = clock.now() + reviewMs;
    for (;;) {
      await clock.sleep(KEEP_UP_MS, signal);
      if (signal.aborted) return;
      const isReview = clock.now() >= reviewAtMs;
      if (isReview) reviewAtMs = clock.now() + reviewMs;
      // Also when the change that made it outdated was reverted.
      const isCurrent = !(await outdated(description, isReview)) || (await this.#change(url, description, signal));
      if (isCurrent) this.#awaited.delete(url);
      else reviewAtMs = 0;
    }
  }

  /** @returns whether the controller has been started anew. */
  async #change(url: string, description: Description, signal: AbortSignal): Promise<boolean> {
    const { change, runtime } = this.#options;
    const { logger } = runtime;
    const about = { url, controller: description.name };
    const known = this.#awaited.get(url);
    if (known === undefined) {
      logger.info(about, 'restarting a controller, because it did not run or a kind has another scope or plural');
    }
    try {
      await change(description, url);
      return true;
    } catch (error) {
      const message = `its controller could not be started anew: ${messageOf(error)}`;
      if (!signal.aborted && known !== message) {
        logger.warn({ ...about, error: messageOf(error) }, 'a controller could not be started again, trying again');
      }
      this.#awaited.set(url, message);
      return false;
    }
  }

  async #ask(url: string, signal: AbortSignal): Promise<void> {
    const { add, files, runtime } = this.#options;
    const { ca, keys } = files;
    const { clock, logger } = runtime;
    for (let failures = 1; !signal.aborted; failures += 1) {
      // The controller gets an endpoint of its own, with as many connections as it may use.
      const endpoint = new Endpoint(url, keys, { connections: 1, ca, clock });
      try {
        const description = await describeFunction(endpoint);
        this.#refuseName(description.name);
        const described = (): void => {
          this.#described.set(url, description);
          this.#awaited.delete(url);
        };
        await add(description, url, described);
        described();
        return;
      } catch (error) {
        this.#described.delete(url);
        const message = messageOf(error);
        if (!signal.aborted && this.#awaited.get(url) !== message) {
          logger.warn({ url, error: message }, 'a function did not describe itself, asking again');
        }
        this.#awaited.set(url, message);
      } finally {
        await endpoint.close();
      }
      await clock.sleep(backoffMs(ASK_AGAIN_MS, failures), signal);
    }
  }

  #refuseName(name: string): void {
    if (isReservedName(name)) throw new UserError(`a controller cannot be called "${name}": rename it`);
    // Also while the controller of that name does not run: it will again.
    if ([...this.#described.values()].some((each) => each.name === name)) {
      throw new UserError(`two functions call their controller "${name}": rename one`);
    }
  }
}

/** How soon a function that did not describe itself is asked again. */
const ASK_AGAIN_MS = [250, 5000] as const;
/** How often a controller that has been added is looked at again. */
const KEEP_UP_MS = 5000;
