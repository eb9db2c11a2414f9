import { parseJson } from '../../../core/index.ts';
import { badRequest } from './kubernetes-status.ts';

/** Where a list goes on. Opaque to clients. Its contents grant nothing, since each request is checked. */
export interface ContinueToken {
  /** The version of the first page: every object of every page is at least as new. */
  readonly version: string;
  /** The incarnations of the views that were read: of others, the pages would be of different pasts. */
  readonly incarnations: string;
  /** The last key of the page before. */
  readonly after: string;
}

export function encodeContinue({ version, incarnations, after }: ContinueToken): string {
  return Buffer.from(JSON.stringify([1, version, incarnations, after])).toString('base64url');
}

/** @throws StatusError 400 */
export function decodeContinue(text: string): ContinueToken {
  let value: unknown;
  try {
    value = parseJson(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    throw notValid('not one of ours');
  }
  if (!Array.isArray(value) || value.length !== 4 || value[0] !== 1) throw notValid('not one of ours');
  const [, version, incarnations, after] = value as unknown[];
  if (typeof version !== 'string' || typeof incarnations !== 'string' || typeof after !== 'string') {
    throw notValid('not one of ours');
  }
  return { version, incarnations, after };
}

function notValid(why: string): Error {
  return badRequest(`invalid continue token: continue key is not valid: ${why}`);
}
