import { UserError } from '../core/index.ts';
import type { Child, ChildEnd } from './child.ts';

export interface FamilyOptions {
  readonly signal: AbortSignal;
  /** Remembers how to stop what was started. */
  readonly started: (name: string, stop: () => Promise<void>) => void;
  readonly say: (line: string) => void;
}

/** The processes that must all stay: when one ends, or when we are to stop, whatever is waited for is given up. */
export class Family {
  readonly #options: FamilyOptions;
  readonly #broken = Promise.withResolvers<never>();

  constructor(options: FamilyOptions) {
    const { signal } = options;
    this.#options = options;
    // Handled by every wait; a failure between two of them must not end the process.
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
      if (!signal.aborted) this.#broken.reject(new UserError(whyEnded(child.name, end, say)));
    };
    void report();
  }

  /** What `wait` gives, unless one of them ends first: then a UserError that says which and why. */
  unless<T>(wait: Promise<T>): Promise<T> {
    return Promise.race([wait, this.#broken.promise]);
  }
}

/**
 * One sentence, with what the child gave as its reason. When it said more, a stack for instance, that is shown first.
 */
function whyEnded(name: string, { code, buffered }: ChildEnd, say: (line: string) => void): string {
  const [only, ...more] = buffered.filter((text) => text.trim() !== '');
  if (only !== undefined && more.length === 0) {
    return `${name} ended (${code}): ${only.replace(/^levelhook: /, '').replace(/[.]$/, '')}.`;
  }
  for (const text of buffered) say(`${name}: ${text}`);
  return `${name} ended (${code})${buffered.length > 0 ? ': see what it wrote above' : ''}.`;
}
