/**
 * Ends what this program has started when it is ended itself: a program that exits does, one that is killed does not.
 */
export function exitAtSignal(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
}
