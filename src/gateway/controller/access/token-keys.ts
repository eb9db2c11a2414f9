import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../../../core/index.ts';
import { KeyRing } from '../../../contract/node/key-ring.ts';
import { createToken, type TokenAudience, type TokenClaims, type TokenKey, tokenKey, verifyToken } from './token.ts';

export interface TokenKeysOptions {
  /** Undefined: this process makes a key of its own, and no other process takes its tokens. */
  readonly ring: KeyRing | undefined;
  /**
   * Signs callback tokens when there is no `ring`, because a run may outlive its gateway. It follows from the signing
   * secrets, which the sender of a callback has anyway. Default: the process's own key.
   */
  readonly callbackRing?: KeyRing | undefined;
  /** The keys are derived for this cluster, because another cluster may have the same ring. */
  readonly cluster: { readonly keyPrefix: string; readonly clusterId: string };
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * The keys that sign tokens. They follow from the keys of the cache, which each gateway has in its settings, so that
 * every replica can check what another has signed, and Redis holds none of them. The first key signs, all keys verify:
 * tokens end with the key that they were signed with, when it is removed.
 */
export class TokenKeys {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #keys: Readonly<Record<TokenAudience, readonly TokenKey[]>>;

  constructor({ ring, callbackRing, cluster, clock }: TokenKeysOptions) {
    const known = ring ?? new KeyRing([{ id: 'process', bytes: randomBytes(32) }]);
    const { clusterId, keyPrefix } = cluster;
    const keysFor = (audience: TokenAudience, from = known): TokenKey[] => {
      const purpose = createHash('sha256').update(JSON.stringify([audience, keyPrefix, clusterId]));
      return from.derived(`token ${purpose.digest('hex')}`).map(({ id, bytes }) => tokenKey(id, bytes));
    };
    this.#clock = clock;
    this.#keys = {
      'levelhook-cache': keysFor('levelhook-cache'),
      'levelhook-kubernetes': keysFor('levelhook-kubernetes'),
      'levelhook-callback': keysFor('levelhook-callback', ring ?? callbackRing),
    };
  }

  /** A token that is valid until `expiresAtMs`, to the second. */
  sign(audience: TokenAudience, claims: Omit<TokenClaims, 'expiresAt'>, expiresAtMs: number): string {
    const [first] = this.#keys[audience];
    if (!first) throw new Error('there is no signing key');
    return createToken(first, audience, { ...claims, expiresAt: Math.floor(expiresAtMs / 1000) }, this.#clock.now());
  }

  /** @throws TokenError */
  verify(audience: TokenAudience, token: string): TokenClaims {
    const keys = this.#keys[audience];
    return verifyToken((id) => keys.find((each) => each.id === id), audience, token, this.#clock.now());
  }
}
