/**
 * A mistake that a person can correct. The message says in one sentence where the mistake is and how to correct it.
 * The command line prints the message alone and exits with 1; a server answers it as a 4xx. No stack trace.
 */
export class UserError extends Error {
  override readonly name = 'UserError';
}

/** A server does not answer now, but may answer later without a change of any setting. */
export class UnavailableError extends UserError {}

/**
 * For the `catch` of a dynamic import of an optional peer dependency: the error names the package to install. The
 * `catch` is needed for esbuild, too: without it, esbuild fails at an import of a package that is not installed.
 */
export function withoutPackage(name: string): (error: unknown) => never {
  return (error) => {
    const { code } = error as { readonly code?: unknown };
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error;
    throw new UserError(`The package ${name} is missing: install it (npm install ${name}).`);
  };
}

/** The text of anything thrown, for a log line or a status: the message and its causes, never a stack. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // An AggregateError of a refused connection (one per address) has an empty message of its own.
  const own = error.message || (error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : error.name);
  return error.cause === undefined ? own : `${own}: ${messageOf(error.cause)}`;
}

/**
 * The connection was refused: the request was not delivered. A name with several addresses gives one error for each.
 */
export function isConnectionRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ((error as Error & { code?: string }).code === 'ECONNREFUSED') return true;
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(isConnectionRefused);
  // `fetch` wraps the error of the connection.
  return isConnectionRefused(error.cause);
}

/** The codes of Node and of undici. */
const UNREACHABLE =
  /^(?:ECONN(?:REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|E(?:HOST|NET)(?:UNREACH|DOWN)|ENOTFOUND|EAI_AGAIN|UND_ERR_SOCKET|UND_ERR_(?:CONNECT|HEADERS)_TIMEOUT)$/;

/** The server did not answer: it is down, or its name does not resolve now. False for a refused certificate. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'TimeoutError' || UNREACHABLE.test((error as Error & { code?: string }).code ?? '')) return true;
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(isUnreachable);
  return isUnreachable(error.cause);
}
