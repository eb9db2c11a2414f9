/**
 * Milliseconds on the machine's monotonic clock, which all its processes share: times of one process may be compared
 * with those of another, to the microsecond, and it is never set back.
 */
export function machineMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}
