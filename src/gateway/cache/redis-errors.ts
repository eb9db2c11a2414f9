/**
 * Whether an operation failed for what it was given, and would fail again in the same way: a script that does not understand its
 * arguments, a value of the wrong type, an error of our own code. Everything else is for a later attempt: Redis is away, full,
 * loading its data or not the master.
 */
export function isDataError(error: unknown): boolean {
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return true;
  return (
    error instanceof Error &&
    error.name === 'ReplyError' &&
    /^(ERR|WRONGTYPE)\b/.test(error.message) &&
    !OF_REDIS.test(error.message)
  );
}

/** Redis says `ERR` for some of its own states, too; and a script's error carries the one of the command that failed. */
const OF_REDIS =
  /max number of clients|OOM|out of memory|-?(LOADING|BUSY|READONLY|MISCONF|MASTERDOWN|CLUSTERDOWN|NOREPLICAS)\b/;
