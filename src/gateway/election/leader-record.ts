import { messageOf, type Runtime } from '../../core/index.ts';
import { variableOf } from '../../ground/config/config.ts';
import type { LeaseTiming } from '../../ground/config/lease.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import type { LeaderElection } from './leader-election.ts';
import { LEADER_FIELD } from './registry-fields.ts';

export interface LeaderRecordOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: Pick<RedisLocation, 'redis' | 'registryKey'>;
  readonly election: Pick<LeaderElection, 'identity' | 'isLeading' | 'leader' | 'name'>;
  readonly timing: Pick<LeaseTiming, 'leaseMs' | 'retryMs'>;
}

/**
 * The identity of the leader in the registry. It lets a follower find out that the Lease's holder leads another
 * deployment. Two deployments with different data in Redis may share a Lease by mistake, such as the default one in
 * their namespace. Then the followers of one deployment would wait for a leader that never comes.
 *
 * The leader writes its identity every retry period. A follower compares it with the holder of the Lease until both
 * have been the same once. If they differ for longer than the Lease's duration, the follower gives a reason, until they
 * are the same, or it leads itself. The follower stays ready, because it leads as soon as the other gateways have
 * ended, as in an update that moves the data. A new leader writes its identity within a retry period.
 */
export class LeaderRecord {
  readonly #options: LeaderRecordOptions;
  /** The holder that was found in the registry. */
  #confirmed: string | undefined;
  /** Since when the Lease and the registry name different leaders, by the clock. */
  #differsSinceMs: number | undefined;
  #reason: string | undefined;
  #failed = false;

  constructor(options: LeaderRecordOptions) {
    this.#options = options;
  }

  /** Why no gateway leads this deployment, although the Lease has a holder; undefined when there is no such reason. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Looks every retry period, until `signal` is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { runtime, timing } = this.#options;
    while (!signal.aborted) {
      try {
        await this.look();
        this.#failed = false;
      } catch (error) {
        if (!this.#failed) {
          const fields = { error: messageOf(error) };
          runtime.logger.warn(fields, 'the identity of the leader could not be recorded or read, trying again');
        }
        this.#failed = true;
      }
      await runtime.clock.sleep(timing.retryMs, signal);
    }
  }

  /** Does nothing while Redis is away, because a command would wait until it is back. */
  async look(): Promise<void> {
    const { election, location, runtime, timing } = this.#options;
    const { redis, registryKey } = location;
    const leads = election.isLeading();
    const leader = leads ? election.identity : election.leader;
    if (!leads && leader === this.#confirmed) return this.#confirm(leader);
    const isUnknown = leader === '' || redis.status !== 'ready';
    const recorded = isUnknown ? null : await redis.hget(registryKey, LEADER_FIELD);
    if (leads && !isUnknown && recorded !== leader) await redis.hset(registryKey, LEADER_FIELD, leader);
    if (isUnknown) this.#differsSinceMs = undefined;
    else if (leads || recorded === leader) this.#confirm(leader);
    else {
      this.#differsSinceMs ??= runtime.clock.now();
      if (runtime.clock.now() - this.#differsSinceMs > timing.leaseMs) this.#report(leader);
    }
  }

  #confirm(leader: string): void {
    if (this.#reason !== undefined) this.#options.runtime.logger.info({ leader }, 'a gateway leads this deployment');
    this.#confirmed = leader;
    this.#differsSinceMs = undefined;
    this.#reason = undefined;
  }

  #report(leader: string): void {
    if (this.#reason !== undefined) return;
    const { election, runtime } = this.#options;
    this.#reason = `the Lease ${election.name} is held by a gateway that works on other data in Redis: give this deployment a Lease of its own by ${variableOf('lease')}`;
    runtime.logger.error({ leader, reason: this.#reason }, 'no gateway leads this deployment');
  }
}
