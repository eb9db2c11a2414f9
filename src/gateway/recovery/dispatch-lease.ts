import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ApiError, messageOf, orUndefined, resourcePath, type Runtime } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { LONGEST_RUN_MS } from './garbage-collection.ts';
import { LEASE, type Lease, microTime } from '../election/lease.ts';

export interface DispatchLeaseOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly client: Pick<ApiClient, 'json'>;
  readonly location: Pick<RedisLocation, 'keyPrefix' | 'registryKey'>;
  /** The cluster's name from the settings, if they give one. */
  readonly clusterId: string | undefined;
  /** Names this process among the gateways of the deployment. */
  readonly gateway: string;
}

/** A gateway that may have started runs that a new Redis process has no record of. */
export interface OtherRuns {
  /** Its id, or `UNKNOWN`. */
  readonly gateway: string;
  /** All these runs started before this time. Milliseconds of the gateway's clock. */
  readonly beforeMs: number;
}

export interface TakenLease {
  /** Runs of any gateway that started before this time may have no record in this Redis process; 0: there are none. */
  readonly beforeMs: number;
  /** The other gateways that may have started such runs. */
  readonly others: readonly OtherRuns[];
}

/** Stands for all gateways whose ids are unknown. */
export const UNKNOWN = '?';

export const NAMESPACE = 'kube-system';
const NAME = 'levelhook-dispatch';
const DEFAULT_PREFIX = 'levelhook';
/** How long a stop waits for the apiserver. */
const RELEASE_MS = 3000;

/** The annotation with the gateways' claims. */
const CLAIMS = 'levelhook.dev/gateways';
/** Another gateway may write between a read and the write that depends on it. */
const CONFLICTS = 10;
const MOST_CLAIMS = 500;

/**
 * Each gateway's claim: the Redis process through which it started runs last, or a time, in the Lease's format, before
 * which it started all its runs.
 */
type Claims = Readonly<Record<string, string>>;

/**
 * The cluster's record of the Redis process whose runs may be in flight: a Lease in `kube-system` that names the
 * process as its holder, with a claim of each gateway that starts runs. A gateway takes the Lease before it sends a
 * trigger through a Redis process, and releases it after its last run. So a gateway that finds another Redis process,
 * or an empty one, knows which gateways may have started runs without a record in Redis (ADR 0006):
 *
 * - no Lease: no run is in flight.
 * - no holder: no run that started after `renewTime` is in flight.
 * - a holder: each gateway with a claim may have runs in flight, on record in the process that it claims. If a gateway
 *   has not claimed the holder, its runs started before the holder was taken first.
 *
 * A Lease without claims was written by an earlier build: then any gateway may have started runs. If the apiserver
 * forbids the Lease, each new Redis process counts as one with unknown runs.
 */
export class DispatchLease {
  readonly #options: DispatchLeaseOptions;
  readonly #name: string;
  readonly #path: string;
  /** The Redis process of the last `take`, granted or refused. */
  #takenFor: string | undefined;
  #isForbidden = false;

  constructor(options: DispatchLeaseOptions) {
    this.#options = options;
    this.#name = leaseName(options.location.keyPrefix, options.clusterId);
    this.#path = resourcePath(LEASE, { namespace: NAMESPACE, name: this.#name });
  }

  /**
   * Takes the Lease for this Redis process. Call it before the first trigger is sent through the process.
   * @throws the apiserver's error when the Lease cannot be read or written for now: nothing may be dispatched.
   */
  async take(runId: string): Promise<TakenLease> {
    const { runtime } = this.#options;
    const isFirst = this.#takenFor === undefined;
    try {
      const others = await this.#untilWritten(() => this.#take(runId));
      this.#takenFor = runId;
      this.#isForbidden = false;
      const nowMs = runtime.clock.now();
      // The gateway knows its own runs without the Lease.
      return { beforeMs: isFirst ? Math.max(0, ...others.map(({ beforeMs }) => beforeMs)) : nowMs, others };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (this.#takenFor !== runId) {
        const lease = `${NAMESPACE}/${this.#name}`;
        runtime.logger.warn(
          { lease, error: messageOf(error) },
          'a Lease that says where runs may be in flight is forbidden: a new Redis process means a wait',
        );
      }
      this.#takenFor = runId;
      this.#isForbidden = true;
      const nowMs = runtime.clock.now();
      return { beforeMs: nowMs, others: [{ gateway: UNKNOWN, beforeMs: nowMs }] };
    }
  }

  async #take(runId: string): Promise<readonly OtherRuns[]> {
    const { client, gateway, runtime } = this.#options;
    const found = await orUndefined(client.json<Lease>({ path: this.#path }));
    const { [gateway]: own, ...others } = this.#claimsOf(found, runId);
    if (this.#takenFor !== runId || own !== runId) {
      const acquireTime = microTime(runtime.clock.wallNow());
      await this.#write(found, { holderIdentity: runId, acquireTime }, { ...others, [gateway]: runId });
    }
    return Object.entries(others).map(([other, claim]) => ({ gateway: other, beforeMs: this.#startedBefore(claim) }));
  }

  /**
   * Releases the Lease after the last run of this gateway. Never rejects.
   * @param beforeMs runs that started before this time may go on; 0: there are none. Milliseconds of the gateway's
   *   clock.
   */
  async release(beforeMs: number): Promise<void> {
    const { runtime } = this.#options;
    const isTaken = this.#takenFor !== undefined && !this.#isForbidden;
    this.#takenFor = undefined;
    if (!isTaken) return;
    const signal = AbortSignal.timeout(RELEASE_MS);
    try {
      await this.#untilWritten(() => this.#release(beforeMs, signal));
    } catch (error) {
      // The Lease is gone, so nothing is left to release.
      if (error instanceof ApiError && error.code === 404) return;
      const fields = { lease: `${NAMESPACE}/${this.#name}`, error: messageOf(error) };
      runtime.logger.warn(fields, 'the Lease of runs in flight could not be released');
    }
  }

  async #release(beforeMs: number, signal: AbortSignal): Promise<void> {
    const { client, gateway } = this.#options;
    const found = await client.json<Lease>({ path: this.#path, signal });
    const { [gateway]: own, ...others } = this.#claimsOf(found, found.spec?.holderIdentity ?? '');
    if (own === undefined) return;
    const time = this.#timeOf(beforeMs);
    const claims: Claims = { ...others, ...(time === undefined ? {} : { [gateway]: time }) };
    const goesOn = Object.values(others).some((claim) => !isTime(claim));
    if (goesOn) return this.#write(found, { ...found.spec }, claims, signal);
    const [renewTime] = Object.values(claims).toSorted().toReversed();
    if (renewTime !== undefined) return this.#write(found, { renewTime }, undefined, signal);
    const { uid, resourceVersion } = found.metadata;
    const body = { preconditions: { uid, resourceVersion } };
    await client.json({ method: 'DELETE', path: this.#path, body, signal });
  }

  /** Tries again after a conflict, because other gateways write the Lease, too. */
  async #untilWritten<T>(attempt: () => Promise<T>): Promise<T> {
    for (let conflicts = 0; ; conflicts += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof ApiError && error.code === 409) || conflicts >= CONFLICTS) throw error;
      }
    }
  }

  /**
   * Removes the claims of gateways whose runs are all over. After a failure their claims stay, without other harm.
   * @throws the apiserver's error.
   */
  async forget(gateways: readonly string[]): Promise<void> {
    const { client } = this.#options;
    if (this.#isForbidden) return;
    await this.#untilWritten(async () => {
      const found = await orUndefined(client.json<Lease>({ path: this.#path }));
      const known = parsedClaims(found?.metadata.annotations?.[CLAIMS]);
      if (!found || !known || !gateways.some((each) => each in known)) return;
      const left = Object.entries(known).filter(([gateway]) => !gateways.includes(gateway));
      await this.#write(found, { ...found.spec }, Object.fromEntries(left));
    });
  }

  /** The claims of a Lease that still matter. @param runId the present Redis process. */
  #claimsOf(lease: Lease | undefined, runId: string): Claims {
    // This gateway has written the Lease before, so a person has deleted it.
    if (!lease) return this.#takenFor === undefined ? {} : { [UNKNOWN]: runId };
    const { acquireTime, holderIdentity: holder, renewTime } = lease.spec ?? {};
    const known = parsedClaims(lease.metadata.annotations?.[CLAIMS]);
    if (!known) return { [UNKNOWN]: holder ?? renewTime ?? runId };
    const claims = Object.entries(known).map(([gateway, claim]) => {
      const isOfEarlierProcess = !isTime(claim) && claim !== holder && claim !== runId;
      return [gateway, isOfEarlierProcess ? (acquireTime ?? claim) : claim] as const;
    });
    const isRecent = (claim: string): boolean => {
      return this.#options.runtime.clock.now() - this.#startedBefore(claim) <= LONGEST_RUN_MS;
    };
    return bounded(Object.fromEntries(claims.filter(([, claim]) => isRecent(claim))));
  }

  #startedBefore(claim: string): number {
    const { clock } = this.#options.runtime;
    if (!isTime(claim)) return clock.now();
    return clock.now() - Math.max(0, clock.wallNow() - Date.parse(claim));
  }

  /** A claim for runs that started before this time; undefined when they must be over. */
  #timeOf(beforeMs: number): string | undefined {
    const { clock } = this.#options.runtime;
    const ageMs = Math.max(0, clock.now() - beforeMs);
    return ageMs > LONGEST_RUN_MS ? undefined : microTime(clock.wallNow() - ageMs);
  }

  /** Fails with a conflict if the Lease has changed since it was read. */
  async #write(
    found: Lease | undefined,
    spec: object,
    claims: Claims | undefined,
    signal?: AbortSignal,
  ): Promise<void> {
    const { client, location } = this.#options;
    const metadata = {
      namespace: NAMESPACE,
      name: this.#name,
      annotations: {
        // For people, who see a hash in the name.
        'levelhook.dev/registry': location.registryKey,
        ...(claims ? { [CLAIMS]: JSON.stringify(claims) } : {}),
      },
      ...(found ? { uid: found.metadata.uid, resourceVersion: found.metadata.resourceVersion } : {}),
    };
    const { apiVersion, kind } = LEASE;
    // A PUT also creates the Lease, and only for a PUT can the right to create be limited to a name.
    await client.json<Lease>({ method: 'PUT', path: this.#path, body: { apiVersion, kind, metadata, spec }, signal });
  }
}

const claimsSchema = z.record(z.string(), z.string());

function parsedClaims(text: string | undefined): Claims | undefined {
  try {
    return text === undefined ? undefined : claimsSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/**
 * Merges the claims of very many killed gateways, as in a crash loop, into one, because an object's annotations are
 * limited.
 */
function bounded(claims: Claims): Claims {
  const all = Object.values(claims);
  if (all.length <= MOST_CLAIMS) return claims;
  const latest = all.find((claim) => !isTime(claim)) ?? all.toSorted().at(-1);
  return latest === undefined ? {} : { [UNKNOWN]: latest };
}

function isTime(claim: string): boolean {
  return /^\d{4}-.*Z$/.test(claim) && !Number.isNaN(Date.parse(claim));
}

/** Gateways with different keys in Redis have different Leases. */
export function leaseName(keyPrefix: string, clusterId: string | undefined): string {
  if (keyPrefix === DEFAULT_PREFIX && clusterId === undefined) return NAME;
  const hash = createHash('sha256').update(JSON.stringify([keyPrefix, clusterId ?? '']));
  return `${NAME}-${hash.digest('hex').slice(0, 16)}`;
}

/** A refusal that a retry does not change: no right, or no Leases in this cluster. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && [403, 404, 405].includes(error.code);
}
