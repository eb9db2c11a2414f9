import { hostname } from 'node:os';
import { z } from 'zod';
import { messageOf, type Runtime } from '../../core/index.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import type { LeaderElection } from './leader-election.ts';
import { REPLICA_FIELD } from './registry-fields.ts';

/** The role of a gateway in its deployment. `alone`: it leads without an election. */
export type ReplicaRole = 'leader' | 'follower' | 'alone' | 'starting';

/** @param parts the parts that take part in the election; undefined while the gateway starts. */
export function roleOf(
  parts: { readonly election: Pick<LeaderElection, 'isLeading'> | undefined } | undefined,
): ReplicaRole {
  if (!parts) return 'starting';
  if (!parts.election) return 'alone';
  return parts.election.isLeading() ? 'leader' : 'follower';
}

/** One gateway of a deployment, from its latest record. Times are milliseconds of the gateways' clock. */
export interface Replica {
  /** Its identity in the Lease: one process for its lifetime. */
  readonly id: string;
  /** The name of its host: in a cluster, of its pod. */
  readonly name: string;
  readonly role: ReplicaRole;
  /** Since when it has this role. */
  readonly roleSinceMs: number;
  /** The version of its build. */
  readonly version: string;
  readonly startedMs: number;
  /** When it recorded itself last. */
  readonly seenMs: number;
  /** See `LeaderHandover`. Undefined for a gateway of an earlier build. */
  readonly standing?: ReplicaStanding | undefined;
}

/** A gateway's message to the others about a handover of the Lease. */
export interface ReplicaStanding {
  /** The ids of controllers and views that it needs from the leader. */
  readonly needs: readonly string[];
  /** Whether it could replace the leader without the loss of any data. */
  readonly mayLead: boolean;
  /** From the leader: the ids that others need and the leader does not know. */
  readonly lacks: readonly string[];
}

export const NO_NEEDS: ReplicaStanding = { needs: [], mayLead: false, lacks: [] };

export interface ListedReplica extends Replica {
  /** Whether it is the gateway that answers this request. */
  readonly isThis: boolean;
}

export interface ReplicaRecordOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: Pick<RedisLocation, 'redis' | 'registryKey'>;
  /** See `Replica`. Unique among the gateways of the deployment. */
  readonly id: string;
  readonly version: string;
  readonly role: () => ReplicaRole;
  /** Default: it needs nothing. */
  readonly standing?: () => ReplicaStanding;
}

/** How often a gateway records itself. */
const RECORD_MS = 10_000;
/** How often a gateway compares its role and standing in memory, to record a change. */
const COMPARE_MS = 1000;
/** A gateway is gone when its last record is older than this. */
export const GONE_MS = 45_000;
/**
 * How many gateways a list names. A crash loop without a leader leaves one field for each start, until a gateway leads.
 */
const SHOWN = 100;

/**
 * This gateway's field in the registry, which shows it to the other gateways of the deployment: one HSET every 10 s,
 * and at a change of role or standing. A gateway that stops removes its field; a killed gateway leaves the list after
 * 45 s, and the leader's next sweep removes its field. Fields that Redis loses are back after 10 s. Only the Lease
 * decides which gateway leads.
 */
export class ReplicaRecord {
  readonly #options: ReplicaRecordOptions;
  readonly #startedMs: number;
  #role: ReplicaRole;
  #roleSinceMs: number;
  #standing: ReplicaStanding = NO_NEEDS;
  #recordedMs = -Infinity;
  #failed = false;

  /** Call it once the clock shows the gateways' time. */
  constructor(options: ReplicaRecordOptions) {
    this.#options = options;
    this.#startedMs = this.#roleSinceMs = options.runtime.clock.now();
    this.#role = options.role();
  }

  /** Records this gateway until `signal` is aborted, and then removes its field. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    while (!signal.aborted) {
      try {
        await this.record();
        this.#failed = false;
      } catch (error) {
        if (!this.#failed) logger.warn({ error: messageOf(error) }, 'this gateway could not be recorded, trying again');
        this.#failed = true;
      }
      await clock.sleep(COMPARE_MS, signal);
    }
    await this.#remove();
  }

  /**
   * Writes the field if that is due or its content has changed. Skips it while Redis is away, where a command would
   * wait.
   */
  async record(): Promise<void> {
    const { location, runtime } = this.#options;
    const isOther = [this.#compareRole(), this.#compareStanding()].includes(true);
    const now = runtime.clock.now();
    if ((!isOther && now < this.#recordedMs + RECORD_MS) || location.redis.status !== 'ready') return;
    this.#recordedMs = now;
    const { id, ...value } = this.#own();
    await location.redis.hset(location.registryKey, REPLICA_FIELD + id, JSON.stringify(value));
  }

  /** This gateway, and all gateways that have recorded themselves in the last 45 s, ordered by name. */
  async all(): Promise<ListedReplica[]> {
    const { location, runtime } = this.#options;
    const registry = await location.redis.hgetall(location.registryKey);
    this.#compareRole();
    const own = this.#own();
    const others = replicasIn(registry, runtime.clock.now()).filter(({ id }) => id !== own.id);
    return [own, ...others].toSorted(byName).map((each) => ({ ...each, isThis: each.id === own.id }));
  }

  #compareRole(): boolean {
    const role = this.#options.role();
    if (role === this.#role) return false;
    this.#role = role;
    this.#roleSinceMs = this.#options.runtime.clock.now();
    this.#recordedMs = -Infinity;
    return true;
  }

  #compareStanding(): boolean {
    const standing = this.#options.standing?.() ?? NO_NEEDS;
    if (JSON.stringify(standing) === JSON.stringify(this.#standing)) return false;
    this.#standing = standing;
    return true;
  }

  #own(): Replica {
    const { id, runtime, version } = this.#options;
    const seenMs = runtime.clock.now();
    const role = { role: this.#role, roleSinceMs: this.#roleSinceMs };
    const standing = this.#standing;
    return { id, name: hostname(), ...role, version, startedMs: this.#startedMs, seenMs, standing };
  }

  async #remove(): Promise<void> {
    const { id, location } = this.#options;
    if (location.redis.status !== 'ready') return;
    // If this fails, the other gateways take this one for gone a little later.
    await location.redis.hdel(location.registryKey, REPLICA_FIELD + id).catch(() => {});
  }
}

const fields = z.object({
  name: z.string(),
  role: z.enum(['leader', 'follower', 'alone', 'starting']),
  roleSinceMs: z.number(),
  version: z.string(),
  startedMs: z.number(),
  seenMs: z.number(),
  standing: z
    .object({ needs: z.array(z.string()), mayLead: z.boolean(), lacks: z.array(z.string()) })
    .optional()
    .catch(undefined),
});

/** The gateways in a registry with a record of the last 45 s, at most 100, ordered by name. */
export function replicasIn(registry: Readonly<Record<string, string>>, nowMs: number): Replica[] {
  return Object.entries(registry)
    .flatMap(([field, value]) => {
      const known = replicaOf(field, value);
      return known && nowMs - known.seenMs < GONE_MS ? [known] : [];
    })
    .toSorted((a, b) => b.seenMs - a.seenMs)
    .slice(0, SHOWN)
    .toSorted(byName);
}

/** Fields of gateways that are gone, and fields that this build cannot read. */
export function goneReplicas(registry: Readonly<Record<string, string>>, nowMs: number): string[] {
  return Object.entries(registry).flatMap(([field, value]) => {
    if (!field.startsWith(REPLICA_FIELD)) return [];
    const known = replicaOf(field, value);
    // A record far in the future comes from a wrong clock. Its gateway writes the field again if it still runs.
    return known && Math.abs(nowMs - known.seenMs) < GONE_MS ? [] : [field];
  });
}

function replicaOf(field: string, value: string): Replica | undefined {
  if (!field.startsWith(REPLICA_FIELD)) return undefined;
  try {
    const parsed = fields.safeParse(JSON.parse(value));
    return parsed.success ? { id: field.slice(REPLICA_FIELD.length), ...parsed.data } : undefined;
  } catch {
    return undefined;
  }
}

function byName(a: Replica, b: Replica): number {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
