import { createHash, timingSafeEqual } from 'node:crypto';
import type { AdminToken } from '../../../ground/config/admin-tokens.ts';
import type { Identities, Identity } from './identity.ts';

/** Reading there slows down a process, so it takes the right to change. */
const PROFILES = /^[/]debug(?:[/]|$)/;

/** The tokens of the settings. A token may read all paths behind the login except profiles, or read and change. */
export class StaticTokens implements Identities {
  readonly #tokens: readonly { readonly hash: Buffer; readonly identity: Identity }[];

  constructor(tokens: readonly AdminToken[]) {
    this.#tokens = tokens.map(({ name, right, token }) => ({
      hash: hashOf(token),
      identity: {
        name,
        client: name,
        from: 'static token',
        may: async (verb, path) => right === 'change' || (verb === 'get' && !PROFILES.test(path)),
        // RBAC does not know its owner, and the operator who made it decides for the whole cache.
        mayRead: async () => true,
      },
    }));
  }

  /** Compares with all tokens, and hashes of one length, so that each guess takes the same time. */
  async identify(token: string): Promise<Identity | undefined> {
    const given = hashOf(token);
    return this.#tokens.filter(({ hash }) => timingSafeEqual(given, hash))[0]?.identity;
  }
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
