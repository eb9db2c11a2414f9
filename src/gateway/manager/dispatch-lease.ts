import { createHash, randomUUID } from 'node:crypto';
import { ApiError, messageOf, orUndefined, resourcePath, type Runtime } from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import type { RedisLocation } from '../redis/redis-location.ts';
import { LONGEST_RUN_MS } from './garbage-collection.ts';
import { LEASE, type Lease, microTime } from './lease.ts';

export interface DispatchLeaseOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly client: Pick<ApiClient, 'json'>;
  readonly location: Pick<RedisLocation, 'keyPrefix' | 'registryKey'>;
  /** The cluster's name when the settings give one. */
  readonly clusterId: string | undefined;
}

/** Of runs that started before these times some may be on record in no Redis process or in another one; 0: none. */
export interface UnknownStarts {
  /** Of all gateways. Milliseconds of the gateway's clock. */
  readonly beforeMs: number;
  /** The same without the runs that this gateway has started since it took the Lease. */
  readonly othersBeforeMs: number;
}

export const NAMESPACE = 'kube-system';
const NAME = 'levelhook-dispatch';
const DEFAULT_PREFIX = 'levelhook';
/** A stop waits so long for the apiserver. */
const RELEASE_MS = 3000;

/**
 * The cluster's record of the Redis process whose runs may be in flight: a Lease in `kube-system`, with the Redis
 * process as its holder. A gateway takes it before it sends a trigger through a Redis process, and releases it after
 * the last run. So a gateway that finds an empty Redis knows whether there can be runs that no Redis knows of
 * (ADR 0006):
 *
 * - no Lease: no run is in flight.
 * - without a holder: no run is in flight that started after `renewTime`.
 * - with a holder: Redis process `holderIdentity` may know of runs in flight.
 *
 * While the Lease is as this gateway wrote it, no other gateway can have started a run since: each takes it first.
 *
 * A gateway releases only a Lease that no other gateway has taken since, and never one that another gateway holds for
 * the same Redis process. Where the apiserver forbids the Lease, each new Redis process counts as one with unknown
 * runs.
 */
export class DispatchLease {
  readonly #options: DispatchLeaseOptions;
  readonly #name: string;
  readonly #path: string;
  readonly #id = randomUUID();
  /** What this gateway has written last; undefined when it may not release it. */
  #own: Lease | undefined;
  /** Runs of other gateways that started before this may be in flight, as long as the Lease is as `#own`. */
  #othersBeforeMs = 0;
  /** The Redis process for which it was taken last, or for which that was refused. */
  #takenFor: string | undefined;

  constructor(options: DispatchLeaseOptions) {
    this.#options = options;
    this.#name = leaseName(options.location.keyPrefix, options.clusterId);
    this.#path = resourcePath(LEASE, { namespace: NAMESPACE, name: this.#name });
  }

  /**
   * Takes the Lease for this Redis process. To be called before the first trigger is sent through it.
   * @throws the apiserver's error when that is unknown for now: nothing may be dispatched.
   */
  async take(runId: string): Promise<UnknownStarts> {
    const { runtime, client } = this.#options;
    try {
      const found = await orUndefined(client.json<Lease>({ path: this.#path }));
      const nowMs = runtime.clock.now();
      const isFirst = this.#takenFor === undefined;
      // Of its own runs the gateway knows without the Lease.
      const beforeMs = isFirst ? this.#startedBefore(found) : nowMs;
      const isUnchanged = found !== undefined && found.metadata.resourceVersion === this.#own?.metadata.resourceVersion;
      const othersBeforeMs = isUnchanged ? this.#othersBeforeMs : beforeMs;
      if (this.#takenFor !== runId) {
        const written = await this.#write(found, {
          holderIdentity: runId,
          acquireTime: microTime(runtime.clock.wallNow()),
        });
        this.#own = found?.spec?.holderIdentity === runId ? undefined : written;
        this.#takenFor = runId;
        this.#othersBeforeMs = othersBeforeMs;
      }
      return { beforeMs, othersBeforeMs };
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
      this.#own = undefined;
      const nowMs = runtime.clock.now();
      return { beforeMs: nowMs, othersBeforeMs: nowMs };
    }
  }

  /**
   * Releases the Lease after the last run of this gateway. Never rejects.
   * @param beforeMs runs that started earlier may go on; 0: none does. Milliseconds of the gateway's clock.
   */
  async release(beforeMs: number): Promise<void> {
    const { runtime, client } = this.#options;
    const own = this.#own;
    this.#own = undefined;
    if (!own) return;
    try {
      const signal = AbortSignal.timeout(RELEASE_MS);
      const ageMs = Math.max(0, runtime.clock.now() - beforeMs);
      if (ageMs > LONGEST_RUN_MS) {
        const { uid, resourceVersion } = own.metadata;
        await client.json({
          method: 'DELETE',
          path: this.#path,
          body: { preconditions: { uid, resourceVersion } },
          signal,
        });
      } else {
        await this.#write(own, { renewTime: microTime(runtime.clock.wallNow() - ageMs) }, signal);
      }
    } catch (error) {
      // Another gateway has taken it, or it is gone: neither is this one's affair.
      if (error instanceof ApiError && (error.code === 409 || error.code === 404)) return;
      runtime.logger.warn({ error: messageOf(error) }, 'the Lease of runs in flight could not be released');
    }
  }

  #startedBefore(lease: Lease | undefined): number {
    const { clock } = this.#options.runtime;
    if (!lease) return 0;
    const renewedMs = Date.parse(lease.spec?.renewTime ?? '');
    if (lease.spec?.holderIdentity !== undefined || Number.isNaN(renewedMs)) return clock.now();
    return clock.now() - Math.max(0, clock.wallNow() - renewedMs);
  }

  /** Fails with a conflict when it is no longer as it was found. */
  #write(found: Lease | undefined, spec: object, signal?: AbortSignal): Promise<Lease> {
    const { client, location } = this.#options;
    const metadata = {
      namespace: NAMESPACE,
      name: this.#name,
      // Each gateway's own, so that each write is a change. And for people, who see a hash in the name.
      annotations: { 'levelhook.dev/gateway': this.#id, 'levelhook.dev/registry': location.registryKey },
      ...(found ? { uid: found.metadata.uid, resourceVersion: found.metadata.resourceVersion } : {}),
    };
    const { apiVersion, kind } = LEASE;
    // A PUT creates it too, and rights to create can be limited to a name for a PUT only.
    return client.json<Lease>({ method: 'PUT', path: this.#path, body: { apiVersion, kind, metadata, spec }, signal });
  }
}

/** Gateways with different keys in Redis have different Leases. */
export function leaseName(keyPrefix: string, clusterId: string | undefined): string {
  if (keyPrefix === DEFAULT_PREFIX && clusterId === undefined) return NAME;
  const hash = createHash('sha256').update(JSON.stringify([keyPrefix, clusterId ?? '']));
  return `${NAME}-${hash.digest('hex').slice(0, 16)}`;
}

/** The apiserver will not answer otherwise the next time: no right, or no Leases. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && [403, 404, 405].includes(error.code);
}
