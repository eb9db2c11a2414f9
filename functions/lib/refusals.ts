import { ApiError } from 'levelhook/function';

/** Nothing can be created in the namespace any more, and nothing need be. */
export function isNamespaceTerminating(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating') ?? false;
}
