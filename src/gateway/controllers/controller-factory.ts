import { type Checkpoint, type Clock, formatKind, type Logger, type Metrics } from '../../core/index.ts';
import { type CacheScope, type Description, isSecureUrl, type SigningKey } from '../../contract/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { discoverResource } from '../apiserver/discovery.ts';
import type { Informers } from '../cache/informers.ts';
import type { ReaderUsers } from '../access/reader-users.ts';
import type { Redis } from '../redis/redis.ts';
import type { CacheSettings } from '../cache/view-settings.ts';
import type { CpuBudgets } from '../cel/cpu-budget.ts';
import type { ParsedExpressions } from '../cel/parsed-expressions.ts';
import { CacheAccess } from '../access/cache-access.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import type { EndpointRules } from '../endpoint/endpoint-rules.ts';
import type { TokenKeys } from '../access/token-keys.ts';
import { BullMqWorkQueue } from '../workqueue/bullmq-work-queue.ts';
import { RunningController } from './controller.ts';
import { queueOptions } from './queue-options.ts';
import { tenantOf } from './controller-id.ts';
import { checkEncryptedKinds } from '../access/encrypted-kinds.ts';

/** What it takes to run a controller, wherever it was declared. */
export interface ControllerSpec {
  /**
   * Names its queue, its metrics and its tokens, in the whole cluster: the function's own name when the operator has
   * configured its URL, `namespace.name` of a ReconcileFunction. A name holds no dot, so neither can be taken for the
   * other.
   */
  readonly id: string;
  readonly description: Description;
  readonly url: string;
  /** Where its triggers may be sent. Default: see `EndpointOptions`. */
  readonly rules?: EndpointRules;
  /** What its triggers are signed with. */
  readonly keys: readonly SigningKey[];
  /** See `EndpointOptions`. */
  readonly ca?: string | undefined;
  /** What of its kinds its function may read. Default: all that is cached of them. */
  readonly scope?: CacheScope;
  /**
   * The description's expressions, as far as they have been parsed. Default: they are parsed when the controller is
   * made.
   */
  readonly parsed?: ParsedExpressions;
  /** Pauses its keys before the first of them runs. Default: its queue is left as it is, paused or not. */
  readonly paused?: boolean;
}

export interface ControllerFactoryOptions {
  readonly redis: Redis;
  readonly keyPrefix: string;
  readonly clusterId: string;
  readonly client: ApiClient;
  readonly informers: Informers;
  readonly cacheSettings: CacheSettings;
  /** Whether the gateway has keys to encrypt what must be. */
  readonly canEncrypt: boolean;
  readonly tokenKeys: TokenKeys;
  /** Undefined when functions get none. */
  readonly readerUsers: Pick<ReaderUsers, 'userOf'> | undefined;
  /** Where functions reach the gateway from outside (`LEVELHOOK_CACHE_URL`); undefined: nowhere. */
  readonly cacheUrl: string | undefined;
  /** Where a controller's function sends outcomes later; undefined: nowhere. */
  readonly callbackUrl: (id: string) => string | undefined;
  readonly cacheTokenMs: number;
  readonly resyncMs: number;
  /** Of all controllers. */
  readonly cpuBudgets: CpuBudgets;
  readonly logTriggers: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

/** Makes controllers of what declares them: finds the kinds, shares the informers, opens queue and endpoint. */
export class ControllerFactory {
  readonly #options: ControllerFactoryOptions;

  constructor(options: ControllerFactoryOptions) {
    this.#options = options;
  }

  /**
   * A controller that hears of nothing yet. Its queue is paused until recovery has looked at it and at its views.
   * @throws UserError when the cluster does not have a kind, or the gateway cannot cache it.
   */
  async create(spec: ControllerSpec): Promise<RunningController> {
    const { id, description, url, rules, keys, ca, scope, parsed } = spec;
    const { cacheSettings, canEncrypt, client, informers, readerUsers, tokenKeys } = this.#options;
    const { clock, logger, metrics, checkpoint, logTriggers, resyncMs, cacheTokenMs } = this.#options;
    checkEncryptedKinds(description, cacheSettings, canEncrypt);
    const resources = await Promise.all(kindsOf(description).map((kind) => discoverResource(client.for(id), kind)));
    const sources = await Promise.all(
      resources.map(async (resource) => ({ resource, informers: await informers.ensure(resource, id) })),
    );
    const shared = { clock, logger, metrics, checkpoint };
    const { redis, keyPrefix, clusterId } = this.#options;
    const location = { redis, keyPrefix, clusterId };
    const { concurrency } = description;
    const endpoint = new Endpoint(url, keys, { connections: concurrency, ca, ...(rules ? { rules } : {}) });
    // The last that can fail has not: a queue has to be closed.
    const queue = new BullMqWorkQueue({ name: id, behaviour: queueOptions(description), location, runtime: shared });
    queue.suspend();
    const views = sources.flatMap((source) => source.informers.map(({ view }) => view));
    // A token must not be sent in the open.
    const cacheUrl = isSecureUrl(url) ? this.#options.cacheUrl : undefined;
    const cacheAccess = new CacheAccess({
      controller: id,
      views,
      ...(scope ? { scope } : {}),
      redisUser: () => readerUsers?.userOf(id),
      api: cacheUrl === undefined ? undefined : { url: cacheUrl, keys: tokenKeys },
      clock,
      lifetimeMs: cacheTokenMs,
      timeoutMs: description.timeoutSeconds * 1000,
    });
    const callbackUrl = this.#options.callbackUrl(id);
    const budget = this.#options.cpuBudgets.of(id, tenantOf(id));
    const parts = { id, budget, parsed, description, sources, queue, endpoint, cacheAccess, callbackUrl, keys };
    return new RunningController({ ...shared, ...parts, logTriggers, resyncMs, random: Math.random });
  }
}

/** Each kind that a description names, once; that of `for` first. */
export function kindsOf({
  for: reconciled,
  owns,
  watches,
  reads,
}: Description): { apiVersion: string; kind: string }[] {
  const all = [reconciled, ...owns, ...watches, ...reads];
  return [
    ...new Map(all.map(({ apiVersion, kind }) => [formatKind({ apiVersion, kind }), { apiVersion, kind }])).values(),
  ];
}
