import {
  backoffMs,
  type Condition,
  idOf,
  messageOf,
  orUndefined,
  resourcePath,
  type Runtime,
} from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { DiscoveryError, discoverResource } from '../../ground/apiserver/discovery.ts';
import { variableOf } from '../../ground/config/config.ts';
import { EventBuffer } from '../informer/reflector/event-buffer.ts';
import { ListWatch } from '../informer/reflector/list-watch.ts';
import { Reflector } from '../informer/reflector/reflector.ts';
import type { WatchEvent } from '../informer/reflector/watch-event.ts';
import { type Again, FunctionReconciler, type FunctionReconcilerOptions } from './function-reconciler.ts';
import { OldestFirst } from './oldest-first.ts';
import { partialTransform } from './partial-transform.ts';
import {
  type PartialReconcileFunction,
  ReconcileFunction,
  type ReconcileFunctionStatus,
} from './reconcile-function.ts';
import type { RightsReview } from './rights-review.ts';
import type { RightsWatch } from './rights-watch.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

export interface DeclaredFunctionsOptions extends Pick<
  FunctionReconcilerOptions,
  'resolver' | 'controllers' | 'writer' | 'progress' | 'reviewMs'
> {
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly cluster: { readonly client: ApiClient; readonly rights: Pick<RightsWatch, 'run'> };
  /**
   * Which ReconcileFunctions run: all, or the matches of a label selector; in each namespace at most `maxPerNamespace`,
   * the oldest first. `leaving` counts the controllers of a namespace that are removed and have runs that are not over.
   */
  readonly select: {
    readonly labelSelector: string | undefined;
    readonly maxPerNamespace: number;
    readonly leaving: (namespace: string) => number;
  };
}

/**
 * The limit of a namespace's removed functions with runs that are not over, as a multiple of `maxPerNamespace`. The
 * gateways remember such a function until its runs are over, a day at most, and a tenant can declare and delete
 * functions under new names all the time.
 */
const LEAVING_FACTOR = 10;

/** How often a cluster without the definition is asked for it. */
const DEFINITION_EVERY_MS = 5000;
/**
 * How long the readiness of the gateway waits for the first look at each ReconcileFunction. A look may ask for
 * thousands of rights, and those of one namespace have a limited rate.
 */
const FIRST_LOOK_MS = 60_000;
/** How soon a removal that failed is tried again: first, and at most. */
const REMOVE_AGAIN_MS = [1000, 30_000] as const;

/**
 * Watches the cluster's ReconcileFunctions and runs a `FunctionReconciler` for each. They are kept in memory and not in
 * the cache that functions read. Anyone who may create them decides how many there are and how large, so the watch
 * keeps identity and status alone, and the spec is held only for those within the limit of their namespace. A cluster
 * without the definition has none; it may be created later.
 */
export class DeclaredFunctions {
  readonly #options: DeclaredFunctionsOptions;
  /** One text for the status of each beyond the limit. */
  readonly #tooMany: string;
  /** By the id of their controller. */
  readonly #functions = new Map<string, FunctionReconciler>();
  /** The same by namespace; the oldest of each may run. */
  readonly #ages = new Map<string, OldestFirst<FunctionReconciler>>();
  /** The ReconcileFunctions of the list under way; undefined outside a list. */
  #listed: Map<string, PartialReconcileFunction> | undefined;
  readonly #complete = Promise.withResolvers<void>();
  #isComplete = false;
  /** When the first list was read. */
  #listedMs: number | undefined;
  #served = false;
  #ended: Promise<unknown> = Promise.resolve();
  /**
   * Removals, which may take a drain each, or until Redis takes writes again: the next of the same name waits for them.
   */
  readonly #leaving = new Map<string, Promise<void>>();
  /** That of `start`. */
  #signal = new AbortController().signal;

  constructor(options: DeclaredFunctionsOptions) {
    this.#options = options;
    const { maxPerNamespace } = options.select;
    this.#tooMany = `this gateway runs ${maxPerNamespace} ReconcileFunctions of a namespace, the oldest ones (${variableOf('maxFunctionsPerNamespace')}): it waits for one of them to be deleted.`;
  }

  /** Resolves when each that there is has been looked at once. */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  /** Each that there is has been looked at once. Some of them may still wait: see `isUndecided`. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /**
   * Undefined once each ReconcileFunction has been reconciled once, otherwise the reason for the wait. A minute after
   * the first list it is a warning only, because the ReconcileFunctions of one tenant must not keep the gateway from
   * being ready.
   */
  notReady(): string | { readonly warning: string } | undefined {
    if (this.#isComplete) return undefined;
    const reason = 'not all ReconcileFunctions have been reconciled yet';
    const isLate = this.#options.runtime.clock.now() >= (this.#listedMs ?? Infinity) + FIRST_LOOK_MS;
    return isLate ? { warning: reason } : reason;
  }

  /** Of all that there are, whether or not they run; undefined while the cluster does not have the definition. */
  ids(): string[] | undefined {
    return this.#served ? [...this.#functions.keys()] : undefined;
  }

  /** Whether a ReconcileFunction with this id exists. */
  has(id: string): boolean {
    return this.#functions.has(id);
  }

  /** Whether a ReconcileFunction with this id exists and still waits for the decision whether it runs. */
  isUndecided(id: string): boolean {
    return this.#functions.get(id)?.isDecided === false;
  }

  /** The status of each ReconcileFunction, by the id of its controller. */
  statuses(): ReadonlyMap<string, ReconcileFunctionStatus | undefined> {
    return new Map([...this.#functions].map(([id, { status }]) => [id, status]));
  }

  /** Of the status of a ReconcileFunction; undefined when there is none of this id. */
  conditions(id: string): readonly Condition[] | undefined {
    const found = this.#functions.get(id);
    return found && (found.status?.conditions ?? []);
  }

  /**
   * The last answer that this gateway got about the rights of a ReconcileFunction; undefined before the first answer,
   * and for any other controller.
   */
  rightsOf(id: string): RightsReview | undefined {
    return this.#functions.get(id)?.rights;
  }

  /** Something about this ReconcileFunction has changed; does nothing for any other controller. */
  again(id: string, what: Again): void {
    this.#functions.get(id)?.again(what);
  }

  /** This gateway leads from now on: it writes the status of each. */
  lead(): void {
    for (const managed of this.#functions.values()) managed.lead();
  }

  start(signal: AbortSignal): void {
    // Callers that wait for all functions need not wait any longer.
    signal.addEventListener('abort', () => this.#complete.resolve(), { once: true });
    this.#signal = signal;
    this.#ended = this.#run(signal);
  }

  /** Waits for the definition: a cluster may never have it, and then nothing else waits for it. */
  async #run(signal: AbortSignal): Promise<void> {
    const { cluster, select, runtime } = this.#options;
    const { client } = cluster;
    const { clock, logger } = runtime;
    let error: unknown;
    while (!signal.aborted) {
      try {
        await discoverResource(client, ReconcileFunction);
        break;
      } catch (reason) {
        if (reason instanceof DiscoveryError) this.#markComplete();
        else if (messageOf(reason) !== messageOf(error) && !signal.aborted) {
          logger.warn({ error: messageOf(reason) }, 'ReconcileFunctions could not be listed, trying again');
        }
        error = reason;
      }
      await clock.sleep(DEFINITION_EVERY_MS, signal);
    }
    if (signal.aborted) return;
    this.#served = true;
    const buffer = new EventBuffer(clock);
    const reflector = new Reflector({
      resource: ReconcileFunction,
      listWatch: new ListWatch(client, ReconcileFunction, { labelSelector: select.labelSelector }),
      buffer,
      runtime,
      random: Math.random,
      transform: partialTransform,
    });
    await Promise.all([
      reflector.run(undefined, signal),
      this.#consume(buffer, signal),
      cluster.rights.run((changes) => {
        this.#options.resolver.forgetRights();
        for (const managed of this.#functions.values()) managed.rightsChanged(changes);
      }, signal),
    ]);
  }

  /** Resolves when nothing is being done any more, after the signal of `start` was aborted. */
  async stopped(): Promise<void> {
    await this.#ended;
    await Promise.all([...this.#functions.values()].map((each) => each.end()));
    await Promise.all(this.#leaving.values());
  }

  async #consume(buffer: EventBuffer, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) for (const event of await buffer.take(100, signal)) this.#handle(event);
    buffer.end();
  }

  #handle(event: WatchEvent): void {
    switch (event.kind) {
      case 'init':
        this.#listed = new Map();
        return;
      case 'listed':
        this.#listed?.set(idOf(event.object), event.object);
        return;
      case 'changed':
        // Within a list, too.
        this.#listed?.set(idOf(event.object), event.object);
        if (!this.#listed) this.#manage(event.object);
        return;
      case 'deleted':
        this.#listed?.delete(idOf(event.object));
        if (!this.#listed) this.#remove(event.object);
        return;
      case 'init-done':
      case 'gone':
        this.#served = event.kind !== 'gone';
        void this.#replace(event.kind === 'gone' ? new Map() : (this.#listed ?? new Map()));
        this.#listed = undefined;
        return;
      case 'unserved':
      case 'back':
      case 'bookmark':
    }
  }

  async #replace(objects: ReadonlyMap<string, PartialReconcileFunction>): Promise<void> {
    this.#listedMs ??= this.#options.runtime.clock.now();
    for (const [id, managed] of this.#functions) if (!objects.has(id)) this.#drop(id, managed);
    for (const object of objects.values()) this.#manage(object);
    await Promise.all([...this.#functions.values()].map(({ looked }) => looked));
    this.#markComplete();
  }

  #markComplete(): void {
    this.#isComplete = true;
    this.#complete.resolve();
  }

  #manage(object: PartialReconcileFunction): void {
    const id = idOf(object);
    const known = this.#functions.get(id);
    if (known?.uid === object.metadata.uid) return known.update(object);
    // Another one under the same name: nothing of the old one is for it.
    if (known) this.#drop(id, known);
    const { resolver, controllers, writer, progress, reviewMs, runtime } = this.#options;
    const before = this.#leaving.get(id);
    const parts = { resolver, controllers, writer, progress, reviewMs, runtime };
    const managed: FunctionReconciler = new FunctionReconciler(object, {
      ...parts,
      declared: {
        read: (which, signal) => this.#read(which, signal),
        check: () => this.#checkLimit(id, managed),
      },
      before,
    });
    this.#functions.set(id, managed);
    this.#agesOf(managed.namespace).add(managed)?.again('object');
  }

  #remove(object: PartialReconcileFunction): void {
    const id = idOf(object);
    const known = this.#functions.get(id);
    if (known) this.#drop(id, known);
  }

  #agesOf(namespace: string): OldestFirst<FunctionReconciler> {
    const ages = this.#ages.get(namespace) ?? new OldestFirst(this.#options.select.maxPerNamespace);
    this.#ages.set(namespace, ages);
    return ages;
  }

  /** @throws ApiError, or an Error when the object is gone or is another one. */
  async #read(object: PartialReconcileFunction, signal: AbortSignal): Promise<ReconcileFunction> {
    const { namespace, name, uid } = object.metadata;
    const client = this.#options.cluster.client.for(idOf(object));
    const path = resourcePath(ReconcileFunction, { namespace, name });
    const found = await orUndefined(client.json<ReconcileFunction>({ path, signal }));
    if (found?.metadata.uid === uid) return found;
    throw new Error('it was deleted, and the watch has not reported that yet');
  }

  #checkLimit(id: string, managed: FunctionReconciler): InvalidFunctionError | undefined {
    const { controllers, select } = this.#options;
    if (!this.#ages.get(managed.namespace)?.isWithin(managed)) {
      return new InvalidFunctionError('Ready', 'TooManyFunctions', this.#tooMany);
    }
    const most = LEAVING_FACTOR * select.maxPerNamespace;
    if (select.leaving(managed.namespace) < most || controllers.known().has(id)) return undefined;
    const text = `${most} deleted ReconcileFunctions of the namespace have runs that are not over: it waits for one of them to end.`;
    return new InvalidFunctionError('Ready', 'TooManyFunctions', text);
  }

  #drop(id: string, managed: FunctionReconciler): void {
    this.#functions.delete(id);
    const ages = this.#agesOf(managed.namespace);
    ages.delete(managed)?.again('object');
    if (ages.size === 0) this.#ages.delete(managed.namespace);
    const leave = async (): Promise<void> => {
      await managed.end();
      await this.#removeController(id);
    };
    const leaving = (this.#leaving.get(id) ?? Promise.resolve()).then(leave).finally(() => {
      if (this.#leaving.get(id) === leaving) this.#leaving.delete(id);
    });
    this.#leaving.set(id, leaving);
  }

  /**
   * Removes a controller's data, and retries until it succeeds or the gateway ends; then the next gateway removes the
   * rest. Never rejects.
   */
  async #removeController(id: string): Promise<void> {
    const { controllers, runtime } = this.#options;
    const { clock } = runtime;
    let known: string | undefined;
    for (let failures = 1; ; failures += 1) {
      try {
        return await controllers.remove(id);
      } catch (reason) {
        const error = messageOf(reason);
        if (this.#signal.aborted || error !== known) {
          const what = 'the data of a removed controller could not be removed, trying again';
          controllers.log.write('warn', id, { error }, what);
        }
        known = error;
      }
      await clock.sleep(backoffMs(REMOVE_AGAIN_MS, failures), this.#signal);
      if (this.#signal.aborted) return;
    }
  }
}
