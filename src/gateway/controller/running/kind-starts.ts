import { type Clock, TokenBucket, UserError } from '../../../core/index.ts';

/** The burst exceeds the number of kinds that the functions of one namespace usually read. */
const RATE = { burst: 200, perSecond: 1 / 10 };

/**
 * Limits how often the declarations of one tenant make the gateway cache a kind that no other function reads. Each time
 * costs a list of all objects and, later, their removal from Redis, so a tenant that changes its kinds again and again
 * must wait.
 */
export class KindStarts {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #tenants = new Map<string, TokenBucket>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /**
   * Counts kinds that begin now.
   * @throws UserError when the tenant has to wait.
   */
  begin(tenant: string, kinds: number): void {
    if (kinds === 0) return;
    const bucket = this.#bucketOf(tenant);
    const { tokens, waitMs } = bucket;
    if (tokens < 1) {
      const seconds = Math.ceil(waitMs / 1000);
      throw new UserError(
        `the namespace has begun to read too many kinds that nothing else reads: one more may begin in ${seconds} s`,
      );
    }
    bucket.spend(kinds);
  }

  #bucketOf(tenant: string): TokenBucket {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    // A full bucket equals a new one, so it is not kept.
    for (const [name, bucket] of this.#tenants) if (bucket.isFull) this.#tenants.delete(name);
    const bucket = new TokenBucket(RATE, () => this.#clock.now());
    this.#tenants.set(tenant, bucket);
    return bucket;
  }
}
