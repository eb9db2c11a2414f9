import type { Started } from '../harness/started.ts';

/** Stops in order what a program has started, and then the program, when it is told to end. */
export function stopAtSignal(started: Started): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void started.stop().finally(() => process.exit(1));
    });
  }
}
