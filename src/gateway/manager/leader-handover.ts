import { messageOf, type Runtime } from '../../core/index.ts';
import { variableOf } from '../config/config.ts';
import type { RedisLocation } from '../redis/redis-location.ts';
import { controllersIn } from './registry-fields.ts';
import { type ListedReplica, NO_NEEDS, type ReplicaRecord, type ReplicaStanding } from './replica-record.ts';

/** A controller or a view that a gateway which follows needs of the gateway that leads. */
export interface Need {
  /** A controller's, or the prefix of a view: another one for other cached fields. */
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

/** What this gateway knows. */
export interface KnownParts {
  /** What it needs of the gateway that leads, for its configured functions. */
  needs(): readonly Need[];
  /** Whether it has the controller or view that another gateway needs. */
  knows(id: string): boolean;
  /** Whether it would remove the data of none of these controllers if it led. */
  keeps(controllers: readonly string[]): boolean;
  /** Whether each of its functions has described its controller. */
  readonly knowsAll: boolean;
}

const LOOK_MS = 3000;
/** Of what a gateway needs it tells the others so much. */
const MOST_TOLD = 20;
/** Of these a person is told so many. */
const MOST_NAMED = 5;

/**
 * Finds out that a gateway which follows knows functions, kinds or cached fields which the gateway that leads does not
 * know, as in an update of their settings, and lets that gateway lead. The gateways tell each other by their fields in
 * the registry (`ReplicaStanding`):
 *
 * - A gateway that follows tells what it needs of the leader: views that are not complete, queues that are not checked.
 * - The gateway that leads tells which of these it does not know. It hands the Lease over when the gateway that needs
 *   them was started later than itself, is ready, and would remove the data of no controller. So the Lease moves to
 *   newer gateways only, and two deployments that differ by mistake do not take it from each other in turn.
 *
 * Without a handover `reason` says what is wrong. The readiness of a gateway that follows does not depend on it.
 */
export class LeaderHandover {
  readonly #options: LeaderHandoverOptions;
  #standing: ReplicaStanding = NO_NEEDS;
  #reason: string | undefined;
  /** What the last look of this gateway has found while it led. */
  #candidate: string | undefined;
  /** What the last two looks have found. */
  #successor: string | undefined;
  #failed = false;

  constructor(options: LeaderHandoverOptions) {
    this.#options = options;
  }

  /** What this gateway tells the others. */
  get standing(): ReplicaStanding {
    return this.#standing;
  }

  /** The identity of the gateway that should lead in place of this one; undefined while there is none. */
  get successor(): string | undefined {
    return this.#options.leads() ? this.#successor : undefined;
  }

  /** What this gateway needs of the gateway that leads, for people; undefined while it needs nothing. */
  get reason(): string | undefined {
    return this.#options.leads() ? undefined : this.#reason;
  }

  /** Looks every three seconds until `signal` is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { location, runtime } = this.#options;
    while (!signal.aborted) {
      try {
        // A command would wait for Redis.
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
    const { known, replica } = this.#options;
    this.#reason = undefined;
    const replicas = await replica.all();
    const startedMs = replicas.find(({ isThis }) => isThis)?.startedMs ?? Infinity;
    const unknownTo = ({ standing }: ListedReplica): string[] =>
      (standing?.needs ?? []).filter((id) => !known.knows(id));
    const needy = replicas.filter((each) => !each.isThis && unknownTo(each).length > 0);
    this.#standing = { ...NO_NEEDS, lacks: bounded(needy.flatMap(unknownTo)) };
    // Before this gateway knows its own functions it cannot tell which it lacks.
    const next = known.knowsAll
      ? needy.find(({ standing, ...each }) => standing?.mayLead && each.startedMs > startedMs)
      : undefined;
    // Seen twice: a function that is added to all gateways is known here a moment later.
    this.#successor = next?.id === this.#candidate ? next?.id : undefined;
    this.#candidate = next?.id;
  }

  async #lookAsFollower(): Promise<void> {
    const { isReady, known, location, replica } = this.#options;
    [this.#candidate, this.#successor] = [undefined, undefined];
    const needs = known.needs();
    if (needs.length === 0) {
      this.#standing = NO_NEEDS;
      return this.#report(undefined);
    }
    const registry = await location.redis.hgetall(location.registryKey);
    const mayLead = isReady() && known.keeps(controllersIn(registry));
    this.#standing = { needs: bounded(needs.map(({ id }) => id)), mayLead, lacks: [] };
    const replicas = await replica.all();
    const startedMs = replicas.find(({ isThis }) => isThis)?.startedMs ?? 0;
    const leader = replicas.find(({ role, isThis }) => role === 'leader' && !isThis);
    const lacking = needs.filter(({ id }) => leader?.standing?.lacks.includes(id));
    if (!leader || lacking.length === 0) {
      return this.#report(`waiting for the gateway that leads to fill and check ${namesOf(needs)}`);
    }
    const [lease, prefix] = [variableOf('lease'), variableOf('keyPrefix')];
    const what =
      mayLead && startedMs > leader.startedMs
        ? 'it hands the Lease over'
        : `end it if its settings are out of date, or give each deployment a ${lease} and a ${prefix} of its own`;
    this.#report(`the gateway that leads (${leader.name}) does not know ${namesOf(lacking)}: ${what}`);
  }

  #report(reason: string | undefined): void {
    if (reason === this.#reason) return;
    this.#reason = reason;
    const { logger } = this.#options.runtime;
    if (reason === undefined) logger.info({}, 'this gateway waits for the gateway that leads no longer');
    else logger.warn({ reason }, 'this gateway waits for the gateway that leads');
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
