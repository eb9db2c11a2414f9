import { viewKeys } from '../cache-layout.ts';
import type { SigningKey } from '../signature.ts';

/**
 * The Redis user that a function reads the cache with: one for each controller. The gateway creates it, a trigger names
 * it (`cache.redisUser`), and both sides derive its passwords from the signing secrets that they share, so that no
 * password is ever sent or configured.
 */

/** The common prefix of all users of this gateway's functions. Neither part holds a colon. */
export function readerUserPrefix({ keyPrefix, clusterId }: { keyPrefix: string; clusterId: string }): string {
  return `${keyPrefix}:v1:${clusterId}:reader:`;
}

/**
 * The user's password for one signing secret: HMAC-SHA256, in base64url, of a text that is never signed otherwise
 * (signed texts begin with the message's id). There is one valid password for each secret, so that a secret can be
 * rotated.
 */
export async function readerPassword(key: SigningKey, user: string): Promise<string> {
  const content = new TextEncoder().encode(`levelhook:redis-user:v1\n${user}`);
  return Buffer.from(await crypto.subtle.sign('HMAC', key, content)).toString('base64url');
}

/**
 * The commands that a function's `ViewReader` sends, and `SELECT`, which a URL with a database needs. Authentication
 * needs no right.
 */
export const READER_COMMANDS = [
  'hget',
  'hmget',
  'scard',
  // Functions with an earlier SDK send it.
  'smembers',
  'sinter',
  'smismember',
  'srandmember',
  'zrangebylex',
  'zlexcount',
  'multi',
  'exec',
  'select',
] as const;

/** The keys of a view that a function reads, as patterns of Redis. Not the outbox, which reveals other controllers. */
export function readablePatterns(prefix: string): string[] {
  const { view, objects, order, indexPrefix, observedPrefix } = viewKeys(prefix.replace(/[\\*?[\]^]/g, '\\$&'));
  return [view, objects, order, `${indexPrefix}*`, `${observedPrefix}*`];
}
