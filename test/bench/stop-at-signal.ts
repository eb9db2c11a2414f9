import type { Started } from '../harness/started.ts';

/** Stops the processes of a program, and then the program, when it gets a signal to end. */
export function stopAtSignal(started: Started): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void started.stop().finally(() => process.exit(1));
    });
  }
}
