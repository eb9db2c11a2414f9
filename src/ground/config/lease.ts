import { UserError } from '../../core/index.ts';

/** The Lease that the gateways of a deployment elect their leader with. */
export interface LeaseKey {
  readonly namespace: string;
  readonly name: string;
}

/** The times of an election, in milliseconds: client-go's LeaseDuration, RenewDeadline and RetryPeriod. */
export interface LeaseTiming {
  /** How long a follower must see no change of the record before it may take the Lease. Whole seconds. */
  readonly leaseMs: number;
  /** A leader stops leading when it has not renewed the Lease for this time. Less than `leaseMs`. */
  readonly renewMs: number;
  /** The time between two attempts, without the jitter of followers. With that jitter it is less than `renewMs`. */
  readonly retryMs: number;
}

/** client-go's JitterFactor: a follower waits between one and 2.2 retry periods. */
export const JITTER_FACTOR = 1.2;

const NAME = 'levelhook';

/**
 * The rules of client-go's `NewLeaderElector`. The record has whole seconds, so a fraction of a second would make it
 * shorter than the leader takes it for.
 * @throws UserError with one sentence about the times, which have the names that `nameOf` gives.
 */
export function checkLeaseTiming(timing: LeaseTiming, nameOf: (time: keyof LeaseTiming) => string): void {
  const { leaseMs, renewMs, retryMs } = timing;
  for (const time of ['leaseMs', 'renewMs', 'retryMs'] as const) {
    if (!(timing[time] >= 1)) throw new UserError(`${nameOf(time)} must be greater than zero.`);
  }
  if (leaseMs % 1000 !== 0) throw new UserError(`${nameOf('leaseMs')} must be a whole number of seconds.`);
  if (leaseMs <= renewMs) throw new UserError(`${nameOf('leaseMs')} must be greater than ${nameOf('renewMs')}.`);
  if (renewMs <= JITTER_FACTOR * retryMs) {
    throw new UserError(`${nameOf('renewMs')} must be greater than ${JITTER_FACTOR} times ${nameOf('retryMs')}.`);
  }
}

/**
 * The Lease to elect by.
 * @param lease `off`, a Lease, or undefined for the default: `levelhook` in the gateway's namespace in a cluster.
 * @param podNamespace the namespace of the gateway's pod; undefined outside a cluster.
 * @returns undefined when there is no election, and this gateway leads.
 */
export function electionLease(lease: 'off' | LeaseKey | undefined, podNamespace?: string): LeaseKey | undefined {
  if (lease === 'off') return undefined;
  if (lease) return lease;
  return podNamespace === undefined ? undefined : { namespace: podNamespace, name: NAME };
}
