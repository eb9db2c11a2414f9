import { UserError } from '../core/index.ts';
import type { Child, ChildEnd } from './child.ts';

export interface FamilyOptions {
  readonly signal: AbortSignal;
  /** Registers how to stop a started process. */
  readonly started: (name: string, stop: () => Promise<void>) => void;
  readonly say: (line: string) => void;
}

/** Processes that must all keep running. When one ends, or on a request to stop, every wait ends with an error. */
export class Family {
  readonly #options: FamilyOptions;
  readonly #broken = Promise.withResolvers<never>();

  constructor(options: FamilyOptions) {
    const { signal } = options;
    this.#options = options;
    // Every wait handles the rejection; without this listener, a failure between two waits would end the process.
    this.#broken.promise.catch(() => {});
    const abort = (): void => this.#broken.reject(new Error('interrupted'));
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
  }

  add(child: Child): void {
    const { signal, started, say } = this.#options;
    started(child.name, () => child.stop());
    const report = async (): Promise<void> => {
      const end = await child.ended;
      if (!signal.aborted && !child.isStopping) this.#broken.reject(new UserError(whyEnded(child.name, end, say)));
    };
    void report();
  }

  /** The value of `wait`. If a process ends first, throws a UserError with its name and reason. */
  unless<T>(wait: Promise<T>): Promise<T> {
    return Promise.race([wait, this.#broken.promise]);
  }
}

/** One sentence with the child's reason. If the child wrote more, such as a stack, that is shown first. */
export function whyEnded(name: string, { code, buffered }: ChildEnd, say: (line: string) => void): string {
  const [only, ...more] = buffered.filter((text) => text.trim() !== '' && !NODES_FRAME.test(text));
  if (only !== undefined && more.length === 0) {
    return `${name} ended (${code}): ${only.replace(/^levelhook: /, '').replace(/[.]$/, '')}.`;
  }
  const shown = [only, ...more].filter((text) => text !== undefined);
  for (const text of shown) say(`${name}: ${text}`);
  return `${name} ended (${code})${shown.length > 0 ? ': see what it wrote above' : ''}.`;
}

/** A line of a stack that names no file of the user. */
const NODES_FRAME = /^\s+at .*\bnode:internal\//;
