const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Aborted when the process must stop: at SIGINT, SIGTERM or SIGHUP, when the reader of its output has closed, and when
 * npm, if it started this process, has ended. npm passes a SIGTERM to the shell in between, which ends without passing
 * it on.
 *
 * Later signals do nothing: a Ctrl-C under npm arrives twice, from the terminal and from npm, and an ordered stop has
 * limits of its own.
 */
export function stopSignal(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  for (const name of SIGNALS) process.on(name, stop);
  process.stdout.on('error', stop);
  // For a closed terminal. Without a listener the next line would end the process in the middle of its stop.
  process.stderr.on('error', stop);
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid !== parent) stop();
  }, 500).unref();
  if (process.env['npm_lifecycle_event'] === undefined) clearInterval(watch);
  return {
    signal: controller.signal,
    release: () => {
      clearInterval(watch);
      for (const name of SIGNALS) process.off(name, stop);
    },
  };
}
