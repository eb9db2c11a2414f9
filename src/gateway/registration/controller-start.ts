import type { RunningController } from '../controller/running/controller.ts';
import type { Controllers } from '../controller/running/controllers.ts';
import type { ResolvedFunction } from './function-resolver.ts';

/**
 * The start of a controller, which may wait for its part of the cache: the list of a large kind takes its time, or
 * never ends. Until it has ended the controller of the old declaration runs on.
 */
export class ControllerStart {
  readonly resolved: ResolvedFunction;
  /** Resolves when the controller waits for its part of the cache, or the start has ended. */
  readonly begun: Promise<void>;
  /** Rejects when the controller could not be started. */
  readonly done: Promise<void>;
  readonly #over = new AbortController();
  readonly #ended = new AbortController();
  #controller: RunningController | undefined;

  constructor(resolved: ResolvedFunction, controllers: Pick<Controllers, 'apply'>) {
    this.resolved = resolved;
    const begun = Promise.withResolvers<void>();
    this.begun = begun.promise;
    const onWaiting = (controller: RunningController): void => {
      this.#controller = controller;
      begun.resolve();
    };
    const end = (): void => {
      this.#ended.abort();
      begun.resolve();
    };
    this.done = controllers.apply(resolved.controller, { signal: this.#over.signal, onWaiting });
    this.done.then(end, end);
  }

  /** The controller that waits for its part of the cache; undefined before. */
  get controller(): RunningController | undefined {
    return this.#controller;
  }

  /** Aborted once `done` is settled. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get isAborted(): boolean {
    return this.#over.signal.aborted;
  }

  /** Gives it up. A start that has ended by now stays as it is. */
  abort(): void {
    this.#over.abort();
  }
}
