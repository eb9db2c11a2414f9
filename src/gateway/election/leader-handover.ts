import { messageOf, type Runtime } from '../../core/index.ts';
import { variableOf } from '../../ground/config/config.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { controllersIn } from './registry-fields.ts';
import { type ListedReplica, NO_NEEDS, type ReplicaRecord, type ReplicaStanding } from './replica-record.ts';

/** A controller or a view that a follower needs from the leader. */
export interface Need {
  /** The controller's id, or the view's key prefix, which differs for other cached fields. */
  readonly id: string;
  /** For people. */
  readonly name: string;
}

export interface LeaderHandoverOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: Pick<RedisLocation, 'redis' | 'registryKey'>;
  readonly replica: Pick<ReplicaRecord, 'all'>;
  /** Whether this gateway leads. */
  readonly leads: () => boolean;
  /** Whether this gateway is ready. */
  readonly isReady: () => boolean;
  readonly known: KnownParts;
}

/** The controllers and views of this gateway. */
export interface KnownParts {
  /** The parts that its configured functions need from the leader. */
  needs(): readonly Need[];
  /** Whether this gateway has the controller or view that another gateway needs. */
  knows(id: string): boolean;
  /** Whether this gateway would keep the data of all these controllers if it led. */
  keeps(controllers: readonly string[]): boolean;
  /** Whether each of its functions has described its controller. */
  readonly knowsAll: boolean;
}

const LOOK_MS = 3000;
/** A gateway records itself every 10 s. One whose record is older than this may have been killed. */
const ALIVE_MS = 15_000;
/** How many of its needs a gateway records at most. */
const MOST_TOLD = 20;
/** How many needs a message for people names at most. */
const MOST_NAMED = 5;

/**
 * Hands the leadership over when a follower knows functions, kinds or cached fields that the leader does not know, for
 * example during an update of their settings. The gateways exchange their needs in their registry fields
 * (`ReplicaStanding`):
 *
 * - A follower records its needs: views that are not complete, queues that are not checked.
 * - The leader records which of these needs it does not know. It hands the Lease over if the gateway in need started
 *   later, is ready, has recorded itself in the last 15 s, and would remove the data of no controller. So the Lease
 *   moves to newer gateways only, and two deployments that differ by mistake do not take it from each other in turn.
 *
 * Without a handover, `reason` explains the difference. A follower's readiness does not depend on it.
 */
export class LeaderHandover {
  readonly #options: LeaderHandoverOptions;
  #standing: ReplicaStanding = NO_NEEDS;
  #reason: string | undefined;
  /** The successor that the last look found, while this gateway led. */
  #candidate: string | undefined;
  /** The successor that the last two looks both found. */
  #successor: string | undefined;
  #failed = false;

  constructor(options: LeaderHandoverOptions) {
    this.#options = options;
  }

  /** The standing that this gateway records for the others. */
  get standing(): ReplicaStanding {
    return this.#standing;
  }

  /** The identity of the gateway that should lead in place of this one; undefined while there is none. */
  get successor(): string | undefined {
    return this.#options.leads() ? this.#successor : undefined;
  }

  /** The needs that this gateway waits for, as a text for people; undefined while it needs nothing. */
  get reason(): string | undefined {
    return this.#options.leads() ? undefined : this.#reason;
  }

  /** Looks every three seconds until `signal` is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { location, runtime } = this.#options;
    while (!signal.aborted) {
      try {
        // While Redis is away a command would wait.
        if (location.redis.status === 'ready') await this.look();
        this.#failed = false;
      } catch (error) {
        const fields = { error: messageOf(error) };
        if (!this.#failed) runtime.logger.warn(fields, 'the needs of other gateways could not be read, trying again');
        this.#failed = true;
      }
      await runtime.clock.sleep(LOOK_MS, signal);
    }
  }

  /** One look. */
  async look(): Promise<void> {
    if (this.#options.leads()) await this.#lookAsLeader();
    else await this.#lookAsFollower();
  }

  async #lookAsLeader(): Promise<void> {
    const { known, replica, runtime } = this.#options;
    this.#reason = undefined;
    const aliveSinceMs = runtime.clock.now() - ALIVE_MS;
    const replicas = await replica.all();
    const startedMs = replicas.find(({ isThis }) => isThis)?.startedMs ?? Infinity;
    const unknownTo = ({ standing }: ListedReplica): string[] =>
      (standing?.needs ?? []).filter((id) => !known.knows(id));
    const needy = replicas.filter((each) => !each.isThis && unknownTo(each).length > 0);
    this.#standing = { ...NO_NEEDS, lacks: bounded(needy.flatMap(unknownTo)) };
    // Until this gateway knows its own functions, it cannot say which needs are unknown to it.
    const next = known.knowsAll
      ? needy.find(
          ({ standing, ...each }) => standing?.mayLead && each.startedMs > startedMs && each.seenMs > aliveSinceMs,
        )
      : undefined;
    // Two looks must agree: a function that is added to all gateways becomes known here a moment later.
    this.#successor = next?.id === this.#candidate ? next?.id : undefined;
    this.#candidate = next?.id;
  }

  async #lookAsFollower(): Promise<void> {
    const { isReady, known, location, replica } = this.#options;
    [this.#candidate, this.#successor] = [undefined, undefined];
    const needs = known.needs();
    if (needs.length === 0) {
      this.#standing = NO_NEEDS;
      return this.#report(undefined, 'info');
    }
    const registry = await location.redis.hgetall(location.registryKey);
    const mayLead = isReady() && known.keeps(controllersIn(registry));
    this.#standing = { needs: bounded(needs.map(({ id }) => id)), mayLead, lacks: [] };
    const replicas = await replica.all();
    const startedMs = replicas.find(({ isThis }) => isThis)?.startedMs ?? 0;
    const leader = replicas.find(({ role, isThis }) => role === 'leader' && !isThis);
    const lacking = needs.filter(({ id }) => leader?.standing?.lacks.includes(id));
    if (!leader || lacking.length === 0) {
      return this.#report(`waiting for the gateway that leads to fill and check ${namesOf(needs)}`, 'info');
    }
    const [lease, prefix] = [variableOf('lease'), variableOf('keyPrefix')];
    const what =
      mayLead && startedMs > leader.startedMs
        ? 'it hands the Lease over'
        : `end it if its settings are out of date, or give each deployment a ${lease} and a ${prefix} of its own`;
    this.#report(`the gateway that leads (${leader.name}) does not know ${namesOf(lacking)}: ${what}`, 'warn');
  }

  /** @param level `warn`: a person may have to end the wait. */
  #report(reason: string | undefined, level: 'info' | 'warn'): void {
    if (reason === this.#reason) return;
    this.#reason = reason;
    const { logger } = this.#options.runtime;
    if (reason === undefined) logger.info({}, 'this gateway waits for the gateway that leads no longer');
    else logger[level]({ reason }, 'this gateway waits for the gateway that leads');
  }
}

function bounded(ids: readonly string[]): string[] {
  return [...new Set(ids)].toSorted().slice(0, MOST_TOLD);
}

function namesOf(needs: readonly Need[]): string {
  const names = [...new Set(needs.map(({ name }) => name))].toSorted();
  const more = names.length - MOST_NAMED;
  return names.slice(0, MOST_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
