import {
  formatKind,
  type GroupVersionKind,
  LimitedLines,
  namespaceOfTenant,
  NewestMap,
  type RequestSource,
  type Resource,
  type Runtime,
  UserError,
} from '../../../core/index.ts';
import type { Description } from '../../../contract/index.ts';
import { isSecureUrl } from '../../../contract/secure-url.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { discoverResource } from '../../../ground/apiserver/discovery.ts';
import { type Informers, servedAs } from '../../informer/cache/informers.ts';
import type { ReaderUsers } from '../access/reader-users.ts';
import type { MemoryGuard } from '../../../ground/redis/memory-shares.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';
import type { CpuBudgets } from '../cel/cpu-budget.ts';
import { CacheAccess } from '../access/cache-access.ts';
import { type KubernetesCredentials, longestRunMs } from '../access/kubernetes-credentials.ts';
import { REVIEW_CONNECTIONS, ReviewSender } from '../dispatch/review-sender.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import { HeldBytes } from '../endpoint/held-bytes.ts';
import type { FunctionAccount } from '../access/account-tokens.ts';
import type { LiveAccounts } from '../access/live-accounts.ts';
import type { TokenKeys } from '../access/token-keys.ts';
import { type TokenRun, TriggerTokens } from '../access/trigger-tokens.ts';
import { queueKeys } from '../workqueue/queue-keys.ts';
import { RelatedRules } from '../workqueue/records/related-rules.ts';
import { UsedRights } from '../workqueue/records/used-rights.ts';
import { WriteRecords } from '../workqueue/records/write-records.ts';
import { RunsInFlight } from '../workqueue/records/runs-in-flight.ts';
import { IdlePace } from '../workqueue/worker/idle-pace.ts';
import { GatewayRuns, OwnRuns } from '../workqueue/records/own-runs.ts';
import { StartRates } from '../workqueue/worker/start-rates.ts';
import { FAILURE_LINES } from '../dispatch/run-report.ts';
import { BullMqWorkQueue, QUEUE_LINES, type WorkQueueOptions } from '../workqueue/bullmq-work-queue.ts';
import { type ControllerSettings, type ControllerTarget, RunningController } from './controller.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { agesOf } from './controller-source.ts';
import { CHANGE_LINES } from './handler-failures.ts';
import { KindStarts } from './kind-starts.ts';
import { queueOptions } from './queue-options.ts';
import { parseKind, RelatedKinds } from './related-kinds.ts';
import { checkEncryptedKind, checkEncryptedKinds, checkSecretReviews } from '../access/encrypted-kinds.ts';

export interface ControllerFactoryOptions {
  readonly runtime: Runtime;
  readonly location: RedisLocation;
  readonly client: ApiClient;
  readonly informers: Informers;
  readonly access: FunctionAccess;
  /** The bounds that all controllers share. */
  readonly bounds: {
    readonly cpuBudgets: CpuBudgets;
    /** The shares of Redis' memory. */
    readonly memory: MemoryGuard;
  };
  readonly settings: ControllerSettings & Pick<WorkQueueOptions, 'historyRuns'>;
  readonly on: {
    /** A controller, or the pause of all its keys, has changed: see `RunningControllerOptions`, `WorkQueueOptions`. */
    readonly changed: (id: string) => void;
    /** Keys of this controller name other related kinds than it watches. */
    readonly relatedKinds: (id: string) => void;
  };
}

/** How functions reach the gateway's cache, its callbacks and the apiserver. */
export interface FunctionAccess {
  readonly tokenKeys: TokenKeys;
  readonly accounts: Pick<LiveAccounts, 'wasThere'>;
  /** Undefined when functions get no Redis users. */
  readonly readerUsers: Pick<ReaderUsers, 'userOf'> | undefined;
  /** Where functions reach the gateway from outside; undefined: nowhere. */
  readonly cacheUrl: string | undefined;
  /** For functions that have no credentials of their own for the apiserver. */
  readonly kubernetes: KubernetesCredentials;
  /** Where a controller's function sends outcomes later; undefined: nowhere. */
  readonly callbackUrl: (id: string) => string | undefined;
}

const SERVED_MS = 10_000;
const MOST_SERVED = 1000;

/** Makes controllers from their declarations: finds the kinds, shares the informers, opens queue and endpoint. */
export class ControllerFactory {
  /** The runs of all controllers that it has made. */
  readonly ownRuns = new GatewayRuns();
  readonly #idlePace = new IdlePace();
  readonly #startRates: StartRates;
  readonly #kindStarts: KindStarts;
  /** The bytes of answers to triggers, by tenant. */
  readonly #heldBytes = new HeldBytes();
  /** Log lines about failed runs and about callbacks, by tenant. */
  readonly #runLines: LimitedLines;
  /** Log lines about failed expressions and about failed handlers, by tenant. */
  readonly #changeLines: LimitedLines;
  /** Log lines about queues that fail, by tenant and part. */
  readonly #queueLines: LimitedLines;
  /** By kind: how the cluster served it when it was asked last. */
  readonly #served = new NewestMap<string, { readonly atMs: number; readonly resource: Promise<Resource | undefined> }>(
    MOST_SERVED,
  );
  readonly #options: ControllerFactoryOptions;

  constructor(options: ControllerFactoryOptions) {
    this.#options = options;
    const { clock } = options.runtime;
    this.#startRates = new StartRates(clock, this.ownRuns);
    this.#kindStarts = new KindStarts(clock);
    this.#runLines = new LimitedLines(clock, FAILURE_LINES);
    this.#changeLines = new LimitedLines(clock, CHANGE_LINES);
    this.#queueLines = new LimitedLines(clock, QUEUE_LINES);
  }

  /**
   * Makes a controller that gets no events yet. Its queue is suspended until recovery has checked it and its views.
   * @throws UserError when the cluster does not have a kind, or the gateway cannot cache it.
   */
  async create(spec: ControllerSpec): Promise<RunningController> {
    const { id, tenant, description, url, rules, keys, ca, scope, account } = spec;
    const { client, informers, location, runtime, settings, access } = this.#options;
    const { clock } = runtime;
    checkEncryptedKinds(description, informers.settings, informers.canEncrypt);
    checkSecretReviews(description, url);
    const declared = kindsOf(description);
    const isOther = (kind: GroupVersionKind): boolean =>
      !declared.some((each) => formatKind(each) === formatKind(kind));
    // `relatedOf` has discovered these. A second discovery would fail while the group of one is away.
    const related = (spec.related ?? []).filter(isOther);
    const resources = await Promise.all(declared.map((kind) => discoverResource(client.for(id), kind)));
    const wanted = [...resources, ...related];
    if (tenant !== undefined) this.#kindStarts.begin(tenant, wanted.filter((each) => !informers.has(each)).length);
    const sources = await Promise.all(
      wanted.map(async (each, at) => ({
        resource: each,
        informers: await informers.ensure(each, id),
        isRelated: at >= declared.length,
      })),
    );
    const webhooks = await Promise.all(
      (description.webhooks ?? []).map(async (webhook) => ({
        webhook,
        resource: await discoverResource(client.for(id), webhook),
      })),
    );
    const { concurrency } = description;
    const onChanged = (): void => this.#options.on.changed(id);
    const connect = (connections: number): Endpoint =>
      new Endpoint(url, keys, { connections, ca, clock, ...(rules ? { rules } : {}) });
    const endpoint = connect(concurrency);
    const tokens = new TriggerTokens({
      controller: id,
      declaration: spec.declaration,
      keys: access.tokenKeys,
      goOn: description.callbackSeconds !== undefined,
      clock,
    });
    // An account is resolved for a secure URL only. The URL is checked here again, so that no later change of that
    // check can send a token over a connection without encryption.
    const accountAccess = account && isSecureUrl(url) ? this.#accountAccess(spec, account, tokens) : undefined;
    // The queue is made after the steps above, which may fail, because a queue has to be closed.
    const behaviour = queueOptions(description);
    const ownRuns = this.ownRuns.of(id);
    const { historyRuns } = settings;
    const { prefix } = queueKeys(location, id);
    const namespace = tenant && namespaceOfTenant(tenant);
    const queue = new BullMqWorkQueue({
      name: id,
      behaviour,
      location: { ...location, owner: spec.uid },
      runtime,
      onPauseChanged: onChanged,
      ownRuns,
      historyRuns,
      bounds: {
        idlePace: this.#idlePace,
        // Runs of a configured function begin without a limit of their rate.
        starts: tenant === undefined ? undefined : this.#startRates.of(tenant),
        leftOut: () => this.#options.bounds.memory.leftOut({ prefix, holding: 'keys' }, namespace),
        admitLine: (part) => this.#queueLines.admit(`${tenant ?? id} ${part}`),
      },
    });
    queue.suspend();
    const views = sources.flatMap((source) => source.informers.map(({ view }) => view));
    // A token must not be sent over a connection without encryption.
    const cacheUrl = isSecureUrl(url) ? access.cacheUrl : undefined;
    const cacheAccess = new CacheAccess({
      views,
      ...(scope ? { scope } : {}),
      redisUser: () => access.readerUsers?.userOf({ controller: id, declaration: spec.declaration }),
      api: cacheUrl === undefined ? undefined : { url: cacheUrl, tokens },
      clock,
    });
    const callbackUrl = access.callbackUrl(id);
    const callbacks =
      callbackUrl === undefined
        ? undefined
        : {
            url: callbackUrl,
            token: (runs: readonly TokenRun[]) => tokens.sign('levelhook-callback', runs),
            verify: (token: string) => access.tokenKeys.verify('levelhook-callback', token),
            hasAccount: async () => !account || access.accounts.wasThere(account),
          };
    const target = { endpoint, cacheAccess, callbacks, ...accountAccess };
    const reviews =
      webhooks.length === 0
        ? undefined
        : {
            webhooks,
            sender: new ReviewSender({
              functionName: description.name,
              endpoint: () => connect(REVIEW_CONNECTIONS),
              cache: () => cacheAccess.locationForReviews(LONGEST_REVIEW_MS),
              ages: () => agesOf(sources),
              clock,
              startWindowMs: settings.startWindowMs,
            }),
          };
    const relatedKinds =
      description.relatedKinds &&
      new RelatedKinds({
        controller: id,
        rules: queue.relatedRules,
        declared,
        watched: related,
        isServed: async (kind) => (await this.#servedResource(id, kind)) !== undefined,
        onOutdated: () => this.#options.on.relatedKinds(id),
        runtime,
      });
    const whole = { ...target, relatedKinds, reviews };
    const { cpuBudgets } = this.#options.bounds;
    const budget = cpuBudgets.of(id, tenant);
    const bounds = {
      budget,
      reviewBudget: ({ isKnown, name }: RequestSource) =>
        isKnown ? budget : cpuBudgets.of(`${id} for ${name}`, `${tenant ?? id} for strangers`),
      openHold: () => this.#heldBytes.open(tenant ?? id),
      admitLine: (about?: 'callbacks') => this.#runLines.admit(`${tenant ?? id} ${about ?? 'runs'}`),
      admitChangeLine: (about: 'expressions' | 'handlers') => this.#changeLines.admit(`${tenant ?? id} ${about}`),
    };
    return new RunningController({ spec, sources, queue, target: whole, bounds, settings, runtime, onChanged });
  }

  /** Finds out about the runs in flight of a controller, which need not be running in this gateway. */
  runsInFlight(id: string): RunsInFlight {
    const { location, runtime } = this.#options;
    const { redis } = location;
    return new RunsInFlight({
      redis,
      keys: queueKeys(location, id),
      ownRuns: this.ownRuns.find(id) ?? new OwnRuns(),
      clock: runtime.clock,
    });
  }

  /**
   * Whether the cluster serves a kind of a controller under another plural or in another scope than the controller
   * knows: its definition was replaced. No event shows that where the old path is gone, or where another gateway fills
   * the view. Never rejects: a kind counts as unchanged while the cluster does not serve it or does not answer.
   */
  async isServedAnew({ name, reviews, sources }: RunningController): Promise<boolean> {
    const known = [...sources.all, ...(reviews?.webhooks ?? [])];
    const areOther = known.map(async ({ resource }) => {
      const served = await this.#servedLately(name, resource).catch(() => undefined);
      return served !== undefined && servedAs(served) !== servedAs(resource);
    });
    return (await Promise.all(areOther)).includes(true);
  }

  /**
   * Discovers the kinds that keys of a controller have named in addition to its description, and returns the kinds that
   * can be watched. If discovery fails for a kind, the running controller keeps watching it, and a new kind is left
   * out.
   */
  async relatedOf(
    id: string,
    { relatedKinds }: Description,
    running: RunningController | undefined,
  ): Promise<Resource[]> {
    if (!relatedKinds) return [];
    const named = await new RelatedRules(this.#options.location.redis, queueKeys(this.#options.location, id)).kinds();
    const kept = running?.relatedKinds?.inUse ?? [];
    const kinds = new Set([...named, ...kept.map(formatKind)]);
    const found = await Promise.all(
      [...kinds].toSorted().map(async (kind) => {
        try {
          return await this.#servedResource(id, parseKind(kind));
        } catch {
          return running?.relatedResource(kind);
        }
      }),
    );
    return found.filter((each) => each !== undefined);
  }

  /** As `#servedResource`, `SERVED_MS` ago at most: the reviews of many controllers of a kind share one request. */
  #servedLately(id: string, kind: GroupVersionKind): Promise<Resource | undefined> {
    const name = formatKind(kind);
    const nowMs = this.#options.runtime.clock.now();
    const known = this.#served.get(name);
    if (known && nowMs - known.atMs < SERVED_MS) return known.resource;
    const resource = this.#servedResource(id, kind);
    this.#served.set(name, { atMs: nowMs, resource });
    return resource;
  }

  /** A kind as the cluster serves it for a controller; undefined while it does not, or it cannot be cached. */
  async #servedResource(id: string, kind: GroupVersionKind): Promise<Resource | undefined> {
    const { client, informers } = this.#options;
    try {
      checkEncryptedKind(kind, informers.settings, informers.canEncrypt);
      return await discoverResource(client.for(id), kind);
    } catch (error) {
      if (error instanceof UserError) return undefined;
      throw error;
    }
  }

  /** The access to the apiserver of a function without credentials of its own: by token or by proxy. */
  #accountAccess(
    { id, description }: ControllerSpec,
    account: FunctionAccount,
    tokens: TriggerTokens,
  ): Pick<ControllerTarget, 'kubernetes' | 'proxied'> {
    const { location, access } = this.#options;
    const { kubernetes } = access;
    if (account.credentials === 'own') return {};
    if (account.credentials === 'token') {
      return { kubernetes: kubernetes.accessOf(account, longestRunMs(description)) };
    }
    const proxy = kubernetes.proxyOf(tokens);
    if (!proxy) throw new UserError('the gateway has no address for functions');
    return {
      kubernetes: proxy,
      proxied: {
        account,
        writeRecords: new WriteRecords(location.redis, queueKeys(location, id)),
        usedRights: new UsedRights(location.redis, queueKeys(location, id), this.#options.runtime.clock),
      },
    };
  }
}

/** The apiserver's longest wait (pkg/apis/admissionregistration/validation/validation.go; a conversion, 30 s). */
const LONGEST_REVIEW_MS = 30_000;

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
