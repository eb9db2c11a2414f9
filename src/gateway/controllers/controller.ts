import { createHash } from 'node:crypto';
import {
  formatKind,
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  parseObjectKey,
  type Resource,
  type Runtime,
} from '../../core/index.ts';
import type {
  CacheScope,
  CallbackBody,
  CallbackLocation,
  IndexSpec,
  SigningKey,
  ViewLocation,
} from '../../contract/index.ts';
import { HandlerError, type KeyWakeup } from '../cache/change.ts';
import type { Informer } from '../cache/informer.ts';
import type { LookupBudget } from '../cache/lookup.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import { type ExpressionFailure, Expressions } from '../cel/expressions.ts';
import { TimeLimitError } from '../cel/time-limit.ts';
import { type CallbackEnd, Callbacks } from '../dispatch/callbacks.ts';
import { Dispatcher, type TriggerTarget } from '../dispatch/dispatcher.ts';
import type { PausableKeys } from '../endpoint/endpoint-circuit-breaker.ts';
import { RECONCILE_RESULTS } from '../dispatch/requeue-policy.ts';
import { KeyScope } from '../handlers/key-scope.ts';
import { isPaused, PAUSED_INDEX } from '../handlers/paused.ts';
import type { BullMqWorkQueue } from '../workqueue/bullmq-work-queue.ts';
import { checkScopes } from '../handlers/check-sources.ts';
import type { ControllerOrigin } from './controller-id.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { EventSources } from './event-sources.ts';
import { HandlerFailures } from './handler-failures.ts';
import { keysInScope } from './keys-in-scope.ts';
import { requeue, type RequeueRequest } from './requeue.ts';
import { ScopedProcess } from './scoped-process.ts';

export interface RunningControllerOptions {
  readonly spec: Pick<ControllerSpec, 'id' | 'origin' | 'description' | 'keys' | 'parsed'>;
  /** Every kind that the description names, the one of `for` first. */
  readonly sources: readonly ControllerSource[];
  readonly queue: BullMqWorkQueue;
  readonly target: ControllerTarget;
  /** Of processor time, for what the description makes the gateway do. */
  readonly budget: CpuBudget;
  readonly settings: ControllerSettings;
  readonly runtime: Runtime;
  /** `openReason`, `missesEvents` or `remarks` may have changed. */
  readonly onChanged: () => void;
}

/** The function of a controller. */
export interface ControllerTarget extends Omit<TriggerTarget, 'callback'> {
  /** Where it may send outcomes later; undefined when it can reach no such place. */
  readonly callbackUrl?: string | undefined;
}

/** The same for all controllers of a gateway. */
export interface ControllerSettings {
  /** Period of resync. */
  readonly resyncMs: number;
  readonly logTriggers: boolean;
}

/**
 * How long a stop waits for keys that are being queued, which end with the next few; only a Redis that does not answer
 * takes longer.
 */
const QUEUEING_ENDS_MS = 2000;

/** Keys that one script notes: an event may lead to all there are. */
const WAKE_CHUNK = 500;

/**
 * A kind that a controller watches or reads, as the cluster serves it, and its informers: one for each cached
 * namespace.
 */
export interface ControllerSource {
  readonly resource: Resource;
  readonly informers: readonly Informer[];
}

/** One controller in the gateway: from the events of its informers, through its queue, to its function. */
export class RunningController {
  /** Its id: in queues, metrics and logs a controller's name is that. */
  readonly name: string;
  readonly origin: ControllerOrigin;
  /** What its function calls it. */
  readonly functionName: string;
  readonly keys: readonly SigningKey[];
  readonly queue: BullMqWorkQueue;
  readonly timeoutMs: number;
  /** How long a run may go on after its 202 without a word; 0: none does. */
  readonly callbackMs: number;
  readonly #options: RunningControllerOptions;
  readonly #scope: KeyScope;
  readonly #events: EventSources;
  readonly #failures: HandlerFailures;
  #callbacks: Callbacks | undefined;
  #dispatcher: Dispatcher | undefined;
  /** All keys are being queued. */
  #queueing: Promise<void> | undefined;
  #stopped = false;

  constructor(options: RunningControllerOptions) {
    const { budget, queue, runtime } = options;
    const { id, origin, description, keys, parsed } = options.spec;
    const { clock, logger, metrics } = runtime;
    const [reconciled] = options.sources;
    if (!reconciled) throw new Error(`the controller ${id} has no source`);
    this.#options = options;
    this.name = id;
    this.origin = origin;
    this.functionName = description.name;
    this.keys = keys;
    const views = reconciled.informers.map(({ view }) => view);
    this.#scope = new KeyScope(reconciled.resource, description.for, views);
    const failures = new HandlerFailures({ controller: id, clock, logger, metrics });
    this.#failures = failures;
    const onFailure = ({ field, message }: ExpressionFailure): void => {
      failures.remark(`${field} ${message}`);
      options.onChanged();
    };
    const expressions = new Expressions({ controller: id, budget, parsed, onFailure, clock, logger, metrics });
    this.#events = new EventSources({ ...description, name: id }, this.#scope, expressions);
    this.queue = queue;
    this.timeoutMs = description.timeoutSeconds * 1000;
    this.callbackMs = (description.callbackSeconds ?? 0) * 1000;
    const labels = { controller: this.name };
    metrics.set('controller_runtime_max_concurrent_reconciles', labels, description.concurrency);
  }

  /** What its function may read of the cache. */
  get scope(): CacheScope {
    return this.#options.target.cacheAccess.scope;
  }

  /** The views that its function may read in Redis. */
  get inRedis(): readonly ViewLocation[] {
    return this.#options.target.cacheAccess.inRedis;
  }

  /** Why no triggers are sent to its function at present, if so. */
  get openReason(): string | undefined {
    return this.#dispatcher?.openReason;
  }

  /** Whether a kind of its is served in another scope by now: it has to be started anew. */
  get outdated(): boolean {
    return this.informers().some((informer) => informer.outdated);
  }

  /** Why it misses events at present, if so: it gets all its keys once it does not. */
  get missesEvents(): string | undefined {
    return this.#failures.notReady;
  }

  /** What its expressions could not answer lately, if anything: the event passed, or led to all keys. */
  get remarks(): string | undefined {
    return this.#failures.remarks;
  }

  /** When the first of `missesEvents` and `remarks` ends by itself; Infinity when neither says anything. */
  get endsMs(): number {
    return this.#failures.endsMs;
  }

  /** For what is looked up on its behalf, after a change and before its keys are queued. */
  get lookupBudget(): LookupBudget {
    const { budget } = this.#options;
    const within = <T>(work: () => T): T => {
      try {
        return work();
      } catch (error) {
        if (!(error instanceof TimeLimitError)) throw error;
        throw new HandlerError(`a lookup of keys ${error.message}`);
      }
    };
    return {
      run: (work) => within(() => budget.within(work, () => true)),
      chargeKeys: (count) => within(() => budget.chargeKeys(count)),
    };
  }

  /** Its handlers have failed at a change, or its keys could not be queued. @param object the one that changed. */
  recordFailure(error: unknown, object?: KubernetesObject): void {
    this.#failures.record(error, object && `${formatKind(object)} ${formatObjectKey(keyOf(object))}`);
    this.#options.onChanged();
  }

  /** How many objects of its kinds, in the namespaces that it names, are kept out of the cache. */
  async keptOut(): Promise<number> {
    const { spec, sources } = this.#options;
    const { description } = spec;
    const { for: reconciled, owns, watches, reads } = description;
    const declared = [reconciled, ...owns, ...watches, ...reads];
    const counts = await Promise.all(
      sources.flatMap(({ resource, informers }) => {
        const wanted = declared.filter((each) => formatKind(each) === formatKind(resource));
        const isEverywhere = wanted.some(({ namespaces }) => namespaces === undefined);
        const named = [...new Set(wanted.flatMap(({ namespaces = [] }) => namespaces))];
        return informers.map(({ view }) => view.indexer.keptOutCount(isEverywhere ? undefined : named));
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /**
   * From now on the informers' events wake this controller's keys; informers that were not needed before begin.
   * @throws UserError for namespaces of a kind that has none.
   */
  async addHandlers(): Promise<void> {
    const { spec, sources } = this.#options;
    const { description } = spec;
    checkScopes(
      description,
      sources.map(({ resource }) => resource),
    );
    const heard: Promise<void>[] = [];
    for (const { resource, informers } of sources) {
      for (const informer of informers) {
        informer.setIndexes(this.name, this.#indexesOf(formatKind(resource)));
        heard.push(informer.setHandlers(this.name, this.#events.handlersFor(resource)));
      }
    }
    await Promise.all(this.informers().map((informer) => informer.begin()));
    await Promise.all(heard);
  }

  /** Declared by the function, or needed to find the referrers of what it watches. */
  #indexesOf(kind: string): IndexSpec[] {
    const { description } = this.#options.spec;
    const declared = description.indexes.filter((each) => formatKind(each) === kind).map(({ index }) => index);
    if (kind !== formatKind(description.for)) return declared;
    return [
      PAUSED_INDEX,
      ...declared,
      ...description.watches.flatMap(({ map }) => (map.by === 'index' ? [map.index] : [])),
    ];
  }

  /**
   * Queues keys that an event has woken, once the event is in the cache: so it is known whether their objects are
   * paused. What an earlier declaration of this controller has left in an outbox may be none of its keys any more.
   */
  async wake(wakeups: readonly KeyWakeup[]): Promise<void> {
    const own = wakeups.filter(({ key }) => this.#scope.containsKey(key));
    for (let from = 0; from < own.length; from += WAKE_CHUNK) {
      const chunk = own.slice(from, from + WAKE_CHUNK);
      const paused = await this.#pausedAmong(chunk.map(({ key }) => key));
      await this.queue.add(chunk.map(({ key, reasons }) => ({ key, reasons, paused: paused.has(key) })));
    }
  }

  async #pausedAmong(keys: readonly string[]): Promise<Set<string>> {
    const paused = new Set<string>();
    for (const { view } of this.#options.sources[0]?.informers ?? []) {
      const inView = keys.filter((key) => view.contains(parseObjectKey(key).namespace));
      const entries = await view.recentEntries(inView);
      inView.forEach((key, at) => isPaused(entries[at]) && paused.add(key));
    }
    return paused;
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await Promise.all(this.informers().map((informer) => informer.waitForSync(signal)));
  }

  /**
   * A rate over a series that appears with its first failure does not show that failure, so all begin at 0, as
   * controller-runtime's do (`initMetrics` of pkg/internal/controller/controller.go).
   */
  #beginSeries(): void {
    const { metrics } = this.#options.runtime;
    const [controller, name] = [this.name, this.name];
    for (const result of RECONCILE_RESULTS) {
      metrics.count('controller_runtime_reconcile_total', { controller, result }, 0);
    }
    metrics.count('controller_runtime_reconcile_errors_total', { controller }, 0);
    metrics.count('workqueue_adds_total', { name }, 0);
    metrics.count('workqueue_retries_total', { name }, 0);
  }

  /** Starts to run keys. The queue may be paused; then it runs none yet. */
  async start(): Promise<void> {
    this.#beginSeries();
    const { runtime, settings } = this.#options;
    const { cacheAccess, endpoint } = this.#options.target;
    const views = this.informers().map((informer) => ({
      view: informer.view,
      currentVersion: () => informer.currentVersion(this.name),
      requestProgress: () => informer.requestProgress(),
    }));
    const callback = (): Promise<CallbackLocation | undefined> => this.#callback();
    // The circuit breaker pauses when it has opened, and resumes when it has closed.
    const keys: PausableKeys = {
      pause: (untilMs) => {
        this.#options.onChanged();
        return this.queue.pause('breaker', untilMs);
      },
      resume: () => {
        this.#options.onChanged();
        return this.queue.resume('breaker');
      },
    };
    const dispatcher = new Dispatcher({
      controller: this.name,
      functionName: this.functionName,
      target: { endpoint, cacheAccess, callback },
      views,
      keys,
      timeoutMs: this.timeoutMs,
      runtime,
      logTriggers: settings.logTriggers,
    });
    this.#dispatcher = dispatcher;
    const token = async (): Promise<string | undefined> => (await this.queue.state()).incarnation;
    this.#callbacks = new Callbacks({ controller: this.name, queue: this.queue, dispatcher, token, runtime });
    await this.queue.start(new ScopedProcess(dispatcher, this.#scope));
  }

  /** The outcome of a run that went on. @throws when Redis or the apiserver does not answer, or before `start`. */
  async callback(body: CallbackBody): Promise<CallbackEnd> {
    if (!this.#callbacks) throw new Error('the controller is being started');
    return this.#callbacks.handle(body);
  }

  /** For a trigger: read from Redis, and only for functions that asked for it. */
  async #callback(): Promise<CallbackLocation | undefined> {
    const { callbackUrl: url } = this.#options.target;
    if (url === undefined || this.callbackMs === 0) return undefined;
    const { incarnation: token } = await this.queue.state();
    return token === undefined ? undefined : { url, token, maxSeconds: this.callbackMs / 1000 };
  }

  async stop(drainMs: number): Promise<void> {
    this.#stopped = true;
    await this.queue.stop(drainMs);
    await this.#options.target.endpoint.close();
    // Of what is removed nothing must be written afterwards.
    if (this.#queueing) await this.#within(QUEUEING_ENDS_MS, this.#queueing);
  }

  async #within(ms: number, work: Promise<void>): Promise<void> {
    const over = new AbortController();
    await Promise.race([work.catch(() => {}), this.#options.runtime.clock.sleep(ms, over.signal)]);
    over.abort();
  }

  /**
   * Queues all keys where they are owed, or the period of resync has passed. A call during another waits for that one.
   */
  ensureKeys(): Promise<void> {
    this.#queueing ??= this.#ensureKeys().finally(() => (this.#queueing = undefined));
    return this.#queueing;
  }

  async #ensureKeys(): Promise<void> {
    if (this.#stopped) return;
    try {
      await this.#ensureInitial();
      await this.#ensureResync();
    } catch (error) {
      if (!this.#stopped) throw error;
    }
  }

  /**
   * Queues all keys once, at low priority, unless that was done for the same declaration, the same filling of the views
   * and the same queue. A new controller, a changed one, a restored etcd, lost data in Redis and missed events all end
   * up here.
   */
  async #ensureInitial(): Promise<void> {
    const { logger, checkpoint } = this.#options.runtime;
    const { incarnation, initial } = await this.queue.state();
    const views = await Promise.all(this.informers().map((informer) => informer.view.state()));
    const missed = await Promise.all(this.informers().map(({ view }) => view.missedBy(this.name)));
    const wanted = this.#initialHash([incarnation, ...views.map((view) => view.incarnation), ...missed]);
    if (wanted === undefined || wanted === initial || this.#failures.isRecent) return;
    this.#failures.delivered();
    const count = await this.#queueAll('initial');
    await checkpoint('initial:before-mark');
    await this.queue.setInitial(wanted);
    logger.info({ controller: this.name, keys: count }, 'queued all keys');
  }

  /**
   * Delivers all keys again from the cache when the period has passed, as client-go's informers do: it heals what a
   * lost event or an outside cause has left undone. The next time is kept in Redis, so a restart does not put it off.
   */
  async #ensureResync(): Promise<void> {
    const { settings } = this.#options;
    const { clock, logger } = this.#options.runtime;
    const now = clock.now();
    const { resyncAtMs } = await this.queue.state();
    if (resyncAtMs !== undefined && resyncAtMs > now) return;
    // Up to a tenth later, so that controllers which were started together do not stay together.
    const next = Math.round(now + settings.resyncMs * (1 + Math.random() / 10));
    if (resyncAtMs !== undefined) {
      const count = await this.#queueAll('resync');
      logger.info({ controller: this.name, keys: count, next: new Date(next).toISOString() }, 'resync');
    }
    await this.queue.setResyncAt(next);
  }

  /** Queues keys at a caller's request. @throws UserError as `requeue`. */
  async requeue(request: RequeueRequest): Promise<number> {
    return requeue({ scope: this.#scope, queue: this.queue }, request);
  }

  /** Ends pauses of objects that do not ask for one any more: the annotation may have gone while no gateway watched. */
  async #endPauses(): Promise<void> {
    const scopes = (await this.queue.pauses()).map(({ scope }) => scope);
    const keys = scopes.flatMap((scope) => (scope.startsWith('object/') ? [scope.slice('object/'.length)] : []));
    const paused = await this.#pausedAmong(keys);
    for (const key of keys) if (!paused.has(key)) await this.queue.resume(`object/${key}`);
  }

  /** Those whose objects would pass as new ones. */
  async #queueAll(reason: 'initial' | 'resync'): Promise<number> {
    // First: an object that is paused meanwhile is found so below.
    await this.#endPauses();
    const { predicate } = this.#events.reconciled;
    const forAll = predicate ? predicate.forNew : true;
    if (forAll === false) return 0;
    const passes = forAll
      ? undefined
      : (object: KubernetesObject) => predicate?.passes({ type: 'added', object }) ?? true;
    let count = 0;
    for await (const keys of keysInScope(this.#scope, { passes })) {
      if (this.#stopped) throw new Error('the controller has stopped');
      for (const key of await this.#pausedAmong(keys)) await this.queue.pause(`object/${key}`);
      await this.queue.addLow(keys, reason);
      count += keys.length;
      await this.#options.runtime.checkpoint('initial:between-keys');
    }
    return count;
  }

  /** Of all its kinds. */
  informers(): Informer[] {
    return this.#options.sources.flatMap(({ informers }) => informers);
  }

  /** Undefined while something it depends on has no incarnation yet. */
  #initialHash(incarnations: readonly (string | undefined)[]): string | undefined {
    if (incarnations.includes(undefined)) return undefined;
    const { name, for: reconciled, owns, watches, reads } = this.#options.spec.description;
    const text = JSON.stringify([name, reconciled, owns, watches, reads, incarnations]);
    return createHash('sha256').update(text).digest('hex').slice(0, 32);
  }
}
