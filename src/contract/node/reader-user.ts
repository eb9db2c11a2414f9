import { viewKeys } from '../cache-layout.ts';
import type { SigningKey } from '../signature.ts';

/**
 * The Redis user as which a function reads the cache: one for each controller. The gateway makes it, a trigger names it
 * (`cache.redisUser`), and both sides derive its passwords from the signing secrets that they share, so that none is
 * ever sent or configured.
 */

/** What all users of this gateway's functions begin with. Neither part holds a colon. */
export function readerUserPrefix({ keyPrefix, clusterId }: { keyPrefix: string; clusterId: string }): string {
  return `${keyPrefix}:v1:${clusterId}:reader:`;
}

/**
 * The password of a user that goes with one signing secret: HMAC-SHA256 of a text that no signature is made over (those
 * begin with the message's id), in base64url. As many passwords as secrets are good at a time, so that a secret can be
 * rotated.
 */
export async function readerPassword(key: SigningKey, user: string): Promise<string> {
  const content = new TextEncoder().encode(`levelhook:redis-user:v1\n${user}`);
  return Buffer.from(await crypto.subtle.sign('HMAC', key, content)).toString('base64url');
}

/**
 * The commands that `ViewReader` gives for a function, and `SELECT`, which comes with a URL that names a database.
 * Authentication needs no right.
 */
export const READER_COMMANDS = ['hget', 'hmget', 'smembers', 'sinter', 'zrangebylex', 'zlexcount', 'select'] as const;

/** The keys of a view that a function reads, as patterns of Redis. Not the outbox, which tells of other controllers. */
export function readablePatterns(prefix: string): string[] {
  const { view, objects, order, indexPrefix, observedPrefix } = viewKeys(prefix.replace(/[\\*?[\]^]/g, '\\$&'));
  return [view, objects, order, `${indexPrefix}*`, `${observedPrefix}*`];
}
