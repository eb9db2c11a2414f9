import {
  type AdmittedLine,
  formatKind,
  formatObjectKey,
  keyOf,
  namespaceOfTenant,
  tenantOf,
  type KubernetesObject,
  type Resource,
  type Runtime,
  type ControllerOrigin,
} from '../../../core/index.ts';
import type { CallbackBody, Description, SigningKey, WebhookDescription } from '../../../contract/index.ts';
import { HandlerError, type KeyWakeup } from '../../informer/cache/change.ts';
import type { LookupBudget } from '../../informer/cache/lookup.ts';
import type { View } from '../../informer/cache/view.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import { type ExpressionFailure, Expressions } from '../cel/expressions.ts';
import { TimeLimitError } from '../cel/time-limit.ts';
import type { CacheAccess } from '../access/cache-access.ts';
import type { FunctionAccount } from '../access/account-tokens.ts';
import type { TokenRun } from '../access/trigger-tokens.ts';
import { type CallbackEnd, Callbacks, type CallbackTokens } from '../dispatch/callbacks.ts';
import {
  type ControllerBounds,
  Dispatcher,
  type DispatcherSettings,
  type TriggerTarget,
} from '../dispatch/dispatcher.ts';
import type { ReviewSender } from '../dispatch/review-sender.ts';
import { RecordedWrites } from '../dispatch/recorded-writes.ts';
import type { Endpoint } from '../endpoint/endpoint.ts';
import type { KeyStarts } from '../endpoint/endpoint-circuit-breaker.ts';
import type { OpenCircuit } from '../endpoint/open-circuit.ts';
import { RelatedObjects } from '../dispatch/related-objects.ts';
import { RECONCILE_RESULTS } from '../dispatch/requeue-policy.ts';
import { KeyScope } from '../handlers/key-scope.ts';
import type { MemoryHolder } from '../../../ground/redis/memory-shares.ts';
import type { UsedRights } from '../workqueue/records/used-rights.ts';
import type { WriteRecords } from '../workqueue/records/write-records.ts';
import type { BullMqWorkQueue } from '../workqueue/bullmq-work-queue.ts';
import type { ControllerSource } from './controller-source.ts';
import { ControllerSources } from './controller-sources.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { EventSources } from './event-sources.ts';
import { HandlerFailures } from './handler-failures.ts';
import { KeyObjects } from './key-objects.ts';
import { addWithPauses } from './paused-keys.ts';
import { type RelatedKinds, relatedWatches } from './related-kinds.ts';
import { requeue, type RequeueRequest } from './requeue.ts';
import { Resyncer } from './resyncer.ts';
import { SecondaryKeys } from './secondary-keys.ts';
import { ScopedProcess } from './scoped-process.ts';

export interface RunningControllerOptions {
  readonly spec: Pick<
    ControllerSpec,
    'id' | 'origin' | 'declaration' | 'tenant' | 'description' | 'related' | 'keys' | 'account' | 'parsed' | 'scope'
  >;
  /** Every kind that the description names, the kind of `for` first, and then the kinds that keys have named. */
  readonly sources: readonly ControllerSource[];
  readonly queue: BullMqWorkQueue;
  readonly target: ControllerTarget;
  readonly bounds: ControllerBounds & {
    /** Whether a line about a failed expression or a failed handler may be logged. Default: it may. */
    readonly admitChangeLine?: (about: 'expressions' | 'handlers') => AdmittedLine | undefined;
  };
  readonly settings: ControllerSettings;
  readonly runtime: Runtime;
  /** `circuit` or `failures` may have changed. */
  readonly onChanged: () => void;
}

/** The function of a controller. */
export interface ControllerTarget extends Omit<TriggerTarget, 'callback' | 'recorded' | 'related'> {
  /** For a function that writes through the gateway. */
  readonly proxied?:
    | { readonly account: FunctionAccount; readonly writeRecords: WriteRecords; readonly usedRights: UsedRights }
    | undefined;
  /** Where it may send outcomes later; undefined when it can reach no such place. */
  readonly callbacks?: ControllerCallbacks | undefined;
  /** Undefined unless its runs may name related objects of any kind. */
  readonly relatedKinds?: RelatedKinds | undefined;
  /** Undefined when it has no webhooks. */
  readonly reviews?: ControllerReviews | undefined;
}

/** Where a function sends callbacks, and the tokens for them. */
export interface ControllerCallbacks extends CallbackTokens {
  readonly url: string;
  /** For a trigger of these runs. */
  readonly token: (runs: readonly TokenRun[]) => string;
}

/** The webhooks of a controller, as the cluster serves their kinds, and the sender of their reviews. */
export interface ControllerReviews {
  readonly webhooks: readonly { readonly webhook: WebhookDescription; readonly resource: Resource }[];
  readonly sender: ReviewSender;
}

/** The settings that all controllers of a gateway share. */
export interface ControllerSettings extends DispatcherSettings {
  /** Period of resync. */
  readonly resyncMs: number;
}

/** Keys that one script records: an event may wake all keys of a controller. */
const WAKE_CHUNK = 500;

/** One controller in the gateway: from the events of its informers, through its queue, to its function. */
export class RunningController {
  /** The controller's id, which is its name in queues, metrics and logs. */
  readonly name: string;
  readonly origin: ControllerOrigin;
  /** See `ControllerSpec.declaration`. */
  readonly declaration: string;
  /** The function's own name for it. */
  readonly functionName: string;
  readonly keys: readonly SigningKey[];
  readonly queue: BullMqWorkQueue;
  readonly objects: KeyObjects;
  /** Why it misses events at present, and the recent failures of its expressions. */
  readonly failures: HandlerFailures;
  /** Its kinds and their informers. */
  readonly sources: ControllerSources;
  /** The part of the cache that its function may read. */
  readonly cacheAccess: CacheAccess;
  /** The kinds that keys have named; undefined unless its runs may name related objects of any kind. */
  readonly relatedKinds: RelatedKinds | undefined;
  readonly timeoutMs: number;
  /** How long a run may go on after its 202 without a callback; 0: no run may. */
  readonly callbackMs: number;
  /** `spec.paused` is true: recovery pauses a queue that it makes anew. */
  pausedBySpec = false;
  readonly #options: RunningControllerOptions;
  readonly #scope: KeyScope;
  readonly #events: EventSources;
  #callbacks: Callbacks | undefined;
  #dispatcher: Dispatcher | undefined;
  readonly #resyncer: Resyncer;
  readonly #stopped = new AbortController();

  constructor(options: RunningControllerOptions) {
    const { bounds, queue, runtime } = options;
    const { id, origin, declaration, description, keys, parsed } = options.spec;
    const { clock, logger, metrics } = runtime;
    const [reconciled] = options.sources;
    if (!reconciled) throw new Error(`the controller ${id} has no source`);
    this.#options = options;
    this.name = id;
    this.origin = origin;
    this.declaration = declaration;
    this.functionName = description.name;
    this.keys = keys;
    const views = reconciled.informers.map(({ view }) => view);
    this.#scope = new KeyScope(reconciled.resource, description.for, views);
    const { admitChangeLine = () => ({}) } = bounds;
    const admitLine = (): AdmittedLine | undefined => admitChangeLine('handlers');
    const failures = new HandlerFailures({ controller: id, clock, logger, metrics, admitLine });
    this.failures = failures;
    this.cacheAccess = options.target.cacheAccess;
    this.sources = new ControllerSources(options.spec, options.sources);
    this.relatedKinds = options.target.relatedKinds;
    const onFailure = ({ field, message }: ExpressionFailure): void => {
      failures.remark(`${field} ${message}`);
      options.onChanged();
    };
    const expressions = new Expressions({
      controller: id,
      budget: bounds.budget,
      parsed,
      onFailure,
      admitLine: () => admitChangeLine('expressions'),
      clock,
      logger,
      metrics,
    });
    const watches = [...description.watches, ...relatedWatches(description, options.spec.related)];
    this.#events = new EventSources({ ...description, watches, name: id }, this.#scope, expressions);
    this.queue = queue;
    this.objects = new KeyObjects({
      resource: reconciled.resource,
      events: this.#events,
      informers: reconciled.informers,
      budget: bounds.budget,
    });
    const secondary = new SecondaryKeys({
      description,
      sources: this.sources.declared,
      events: this.#events,
      budget: bounds.budget,
      lookups: this.lookupBudget,
      onLeftOut: ({ message }) => failures.remark(message),
    });
    this.#resyncer = new Resyncer({
      spec: options.spec,
      sources: this.sources,
      events: this.#events,
      secondary,
      queue,
      failures,
      pace: { resyncMs: options.settings.resyncMs, budget: bounds.budget },
      runtime,
    });
    this.timeoutMs = description.timeoutSeconds * 1000;
    this.callbackMs = (description.callbackSeconds ?? 0) * 1000;
    const labels = { controller: this.name };
    metrics.set('controller_runtime_max_concurrent_reconciles', labels, description.concurrency);
  }

  /** The share of this process that it may use. */
  get bounds(): ControllerBounds {
    return this.#options.bounds;
  }

  /** The tenant that owns the controller: all controllers of a tenant share its bounds. */
  get tenant(): string {
    return this.#options.spec.tenant ?? this.name;
  }

  /** See `ControllerSpec.account`. */
  get account(): FunctionAccount | undefined {
    return this.#options.spec.account;
  }

  /** Undefined unless its function writes through the gateway. */
  get proxied():
    | (NonNullable<ControllerTarget['proxied']> & {
        readonly resources: readonly Resource[];
        readonly budget: CpuBudget;
      })
    | undefined {
    const { bounds, target } = this.#options;
    const { budget } = bounds;
    return target.proxied && { ...target.proxied, resources: this.sources.all.map(({ resource }) => resource), budget };
  }

  /** Undefined when it has no webhooks. */
  get reviews(): ControllerReviews | undefined {
    return this.#options.target.reviews;
  }

  get description(): Description {
    return this.#options.spec.description;
  }

  /** Where its function is. */
  get endpoint(): Pick<Endpoint, 'url' | 'lastAnswer' | 'postBelow'> {
    return this.#options.target.endpoint;
  }

  /** The views of the kind that it reconciles. */
  get reconciledViews(): readonly View[] {
    return this.#scope.views;
  }

  /** Undefined while this gateway sends triggers to its function freely. */
  get circuit(): OpenCircuit | undefined {
    return this.#dispatcher?.circuit;
  }

  /** The resource of a kind that the controller watches because keys name it. Undefined for any other kind. */
  relatedResource(kind: string): Resource | undefined {
    return this.#options.spec.related?.find((each) => formatKind(each) === kind);
  }

  /** Charges lookups of keys to this controller: they happen after a change and before the keys are queued. */
  get lookupBudget(): LookupBudget {
    const { budget } = this.#options.bounds;
    const within = <T>(work: () => T): T => {
      try {
        return work();
      } catch (error) {
        if (!(error instanceof TimeLimitError)) throw error;
        throw new HandlerError(`a lookup of keys ${error.message}`);
      }
    };
    const run = <T>(work: () => T): T => within(() => budget.within(work, () => true));
    const chargeKeys = (count: number, before: number): void => within(() => budget.chargeKeys(count, before));
    return {
      tenant: tenantOf(this.name),
      labelSelector: this.#scope.labelSelector,
      run,
      chargeKeys,
      related: (change) => this.queue.relatedRules.keysOf(change, { run, chargeKeys }),
    };
  }

  /**
   * Records that the handlers have failed at a change, or that keys could not be queued.
   * @param object the changed object.
   */
  recordFailure(error: unknown, object?: KubernetesObject): void {
    this.failures.record(error, object && `${formatKind(object)} ${formatObjectKey(keyOf(object))}`);
    this.#options.onChanged();
  }

  /** The queue of its keys, for the shares of Redis' memory. Undefined for a controller of no tenant. */
  get memoryHolder(): MemoryHolder | undefined {
    const { tenant } = this.#options.spec;
    if (tenant === undefined) return undefined;
    const { queue } = this;
    const weigh = async (): Promise<ReadonlyMap<string, number>> =>
      new Map([[namespaceOfTenant(tenant), await queue.inspector.weigh()]]);
    return { prefix: queue.keys.prefix, holding: 'keys', weigh };
  }

  /**
   * From now on the informers' events wake this controller's keys; informers that were not needed before begin.
   * @param before the controller that this one replaces, and that runs on for now: the events wake its keys, too, and
   *   the views stay as young as its webhooks need them.
   * @throws UserError for namespaces of a kind that has none.
   */
  addHandlers(before?: RunningController): Promise<void> {
    const events = before ? [this.#events, before.#events] : [this.#events];
    return this.sources.addHandlers(events, this.reviews?.webhooks ?? [], before?.sources);
  }

  /** Whether it reconciles this object of its kind. Its predicate does not count: events alone go through it. */
  selects(object: KubernetesObject): boolean {
    return this.#scope.containsKey(formatObjectKey(keyOf(object))) && this.#scope.selects(object);
  }

  /** Whether it reconciles this key. */
  hasInScope(key: string): boolean {
    return this.#scope.containsKey(key);
  }

  /**
   * Queues keys that an event has woken, once the event is in the cache, which then shows whether their objects are
   * paused. Wakeups that an earlier declaration left in an outbox may name keys that this one does not have.
   * @throws HandlerError while there is no memory for its keys: it gets all of them later.
   */
  async wake(wakeups: readonly KeyWakeup[]): Promise<void> {
    const leftOut = this.queue.leftOut();
    if (leftOut !== undefined) throw new HandlerError(`its keys are not queued: ${leftOut}`);
    const own = wakeups.filter(({ key }) => this.hasInScope(key));
    for (let from = 0; from < own.length; from += WAKE_CHUNK) {
      const chunk = own.slice(from, from + WAKE_CHUNK);
      const keys = chunk.map(({ controller: _, ...wakeup }) => wakeup);
      await addWithPauses(this.queue, this.#scope.views, keys);
    }
  }

  /**
   * Begins all counters at 0, because the rate of a series that appears with its first failure does not show that
   * failure. controller-runtime does the same (`initMetrics` of pkg/internal/controller/controller.go).
   */
  #beginSeries(): void {
    const { metrics } = this.#options.runtime;
    const [controller, name] = [this.name, this.name];
    for (const result of RECONCILE_RESULTS) {
      metrics.count('controller_runtime_reconcile_total', { controller, result }, 0);
    }
    metrics.count('controller_runtime_reconcile_errors_total', { controller }, 0);
    metrics.count('controller_runtime_terminal_reconcile_errors_total', { controller }, 0);
    metrics.count('controller_runtime_reconcile_panics_total', { controller }, 0);
    metrics.count('controller_runtime_reconcile_timeouts_total', { controller }, 0);
    metrics.count('workqueue_adds_total', { name, controller }, 0);
    metrics.count('workqueue_retries_total', { name, controller }, 0);
  }

  /** Starts to run keys. While the queue is suspended, it runs none yet. */
  async start(): Promise<void> {
    this.#beginSeries();
    const { runtime, settings } = this.#options;
    const { cacheAccess, endpoint, kubernetes, proxied } = this.#options.target;
    const views = this.sources.informers.map((informer) => ({
      view: informer.view,
      isComplete: () => informer.synced,
      currentVersion: () => informer.currentVersion({ controller: this.name, signal: this.#stopped.signal }),
      requestProgress: () => informer.requestProgress(),
    }));
    const { callbacks } = this.#options.target;
    const callback = callbacks && this.callbackMs > 0 ? this.#callbackAt(callbacks) : undefined;
    const keys: KeyStarts = {
      allow: (most) => {
        this.queue.allow(most);
        this.#options.onChanged();
      },
    };
    const recorded =
      proxied &&
      new RecordedWrites(
        proxied.writeRecords,
        views.map(({ view }) => view),
        { clock: runtime.clock, budget: this.#options.bounds.budget },
      );
    const related = this.#relatedObjects();
    const dispatcher = new Dispatcher({
      controller: this.name,
      functionName: this.functionName,
      target: { endpoint, cacheAccess, callback, kubernetes, recorded, related },
      views,
      starts: { keys, ending: this.#stopped.signal },
      bounds: { ...this.#options.bounds, isLeftOut: () => this.queue.leftOut() !== undefined },
      runtime,
      settings,
    });
    this.#dispatcher = dispatcher;
    this.#callbacks =
      callbacks &&
      new Callbacks({
        controller: this.name,
        declaration: this.declaration,
        queue: this.queue,
        dispatcher,
        tokens: callbacks,
        incarnation: async () => (await this.queue.record.state()).incarnation,
        admitLine: () => this.bounds.admitLine('callbacks'),
        runtime,
      });
    await this.queue.start(new ScopedProcess(dispatcher, this.#scope));
    void this.relatedKinds?.run(this.#stopped.signal);
  }

  /** Undefined when no source has the map `related`. */
  #relatedObjects(): RelatedObjects | undefined {
    const { relatedKinds, watches } = this.#options.spec.description;
    const kinds = new Set(watches.flatMap((each) => (each.map.by === 'related' ? [formatKind(each)] : [])));
    if (kinds.size === 0 && !relatedKinds) return undefined;
    const { budget } = this.#options.bounds;
    const { leftOut, relatedRules: rules } = this.queue;
    const exists = (key: string): Promise<boolean> => this.objects.exists(key);
    if (!relatedKinds) return new RelatedObjects({ leftOut, rules, budget, kinds, exists });
    const complete = (): ReadonlySet<string> =>
      new Set(this.sources.completeRelated.map(({ resource }) => formatKind(resource)));
    return new RelatedObjects({ leftOut, rules, budget, kinds: undefined, complete, exists });
  }

  /** The outcome of a run that went on. @throws when Redis or the apiserver does not answer, or before `start`. */
  async callback(body: CallbackBody): Promise<CallbackEnd> {
    if (!this.#callbacks) throw new Error('the controller is being started');
    return this.#callbacks.handle(body);
  }

  #callbackAt({ url, token }: ControllerCallbacks): NonNullable<TriggerTarget['callback']> {
    const maxSeconds = this.callbackMs / 1000;
    return { maxSeconds, location: (runs) => ({ url, token: token(runs), maxSeconds }) };
  }

  async stop(drainMs: number): Promise<void> {
    this.#resyncer.stop();
    await this.queue.stop(drainMs);
    // Requests that wait for flow control would be counted under the name of a controller that is no more.
    this.#stopped.abort();
    await this.reviews?.sender.close();
    await this.#options.target.endpoint.close();
    // Nothing may be written after the data of a removed controller is deleted.
    await this.#resyncer.ended();
  }

  /** See `Resyncer.ensureKeys`. */
  ensureKeys(): Promise<void> {
    return this.#resyncer.ensureKeys();
  }

  /** Queues keys at a caller's request. @throws UserError as `requeue`. */
  async requeue(request: RequeueRequest): Promise<number> {
    return requeue({ scope: this.#scope, queue: this.queue, stopped: this.#stopped.signal }, request);
  }
}
