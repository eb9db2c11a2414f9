import { createHash } from 'node:crypto';
import { formatKind, type KubernetesObject, type Runtime, tenantOf } from '../../../core/index.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { BullMqWorkQueue } from '../workqueue/bullmq-work-queue.ts';
import type { QueueState } from '../workqueue/records/queue-record.ts';
import { type DeclarationLog, declarationLog } from './declaration-log.ts';
import { informersOf } from './controller-source.ts';
import type { ControllerSources } from './controller-sources.ts';
import type { ControllerSpec } from './controller-spec.ts';
import type { EventSources } from './event-sources.ts';
import type { HandlerFailures } from './handler-failures.ts';
import { keysInScope } from './keys-in-scope.ts';
import { pausedAmong, settlePauses } from './paused-keys.ts';
import type { SecondaryKeys } from './secondary-keys.ts';

export interface ResyncerOptions {
  readonly spec: Pick<ControllerSpec, 'id' | 'description'>;
  readonly sources: Pick<ControllerSources, 'declared' | 'completeRelated'>;
  readonly events: Pick<EventSources, 'reconciled' | 'scope'>;
  readonly secondary: SecondaryKeys;
  readonly queue: BullMqWorkQueue;
  readonly failures: HandlerFailures;
  /** Period of resync, and who pays for queueing keys. */
  readonly pace: { readonly resyncMs: number; readonly budget: Pick<CpuBudget, 'background'> };
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'checkpoint'>;
}

/** Of the thread, for reading a key and adding it to the queue: estimated 4 to 5 us. */
const KEY_MS = 0.005;
/** How long `ended` waits for a Redis that does not answer. */
const END_TIMEOUT_MS = 2000;

/**
 * Queues all keys of a controller at low priority: whenever its sources or the incarnation of a view or of its queue
 * have changed, or it has missed events, and after each period of resync. Redis records each of these, so a restart of
 * the gateway repeats nothing.
 */
export class Resyncer {
  readonly #options: ResyncerOptions;
  readonly #log: DeclarationLog;
  /** The call of `ensureKeys` under way. */
  #queueing: Promise<void> | undefined;
  readonly #stopped = new AbortController();

  constructor(options: ResyncerOptions) {
    this.#options = options;
    this.#log = declarationLog(options.runtime);
  }

  /** Queues all keys if that is due. A call during another one waits for that one. */
  ensureKeys(): Promise<void> {
    this.#queueing ??= this.#ensureKeys().finally(() => (this.#queueing = undefined));
    return this.#queueing;
  }

  /** Ends a call of `ensureKeys` at its next key or object. Later calls do nothing. */
  stop(): void {
    this.#stopped.abort(new Error('the controller has stopped'));
  }

  /** Resolves when a stopped call of `ensureKeys` has ended, or after two seconds. */
  async ended(): Promise<void> {
    if (!this.#queueing) return;
    const timeout = new AbortController();
    const ended = this.#queueing.catch(() => {});
    await Promise.race([ended, this.#options.runtime.clock.sleep(END_TIMEOUT_MS, timeout.signal)]);
    timeout.abort();
  }

  async #ensureKeys(): Promise<void> {
    const { signal } = this.#stopped;
    if (signal.aborted) return;
    try {
      const state = await this.#options.queue.record.state();
      await this.#ensureInitial(state);
      await this.#ensureRelated();
      await this.#ensureResync(state);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /**
   * Queues all keys unless that was done for the same sources, incarnations and missed events. A new or changed
   * controller, a restored etcd, lost data in Redis and missed events all change one of them.
   */
  async #ensureInitial({ incarnation, initial }: QueueState): Promise<void> {
    const { spec, queue, failures, runtime } = this.#options;
    const declared = informersOf(this.#options.sources.declared);
    const states = await Promise.all(declared.map(({ view }) => view.record.state()));
    const missed = await Promise.all(declared.map(({ view }) => view.record.missedBy(spec.id)));
    const wanted = this.#initialHash([incarnation, ...states.map((state) => state.incarnation), ...missed]);
    if (wanted === undefined || wanted === initial || failures.isRecent || queue.leftOut() !== undefined) return;
    failures.delivered();
    const count = await this.#queueAll('initial');
    await this.#forgetOutOfScope();
    await runtime.checkpoint('initial:before-mark');
    await queue.record.setInitial(wanted);
    this.#log.write('info', spec.id, { keys: count }, 'queued all keys');
  }

  /**
   * Removes the rules of keys in namespaces that are no longer declared: such a key does not run, whatever wakes it.
   */
  async #forgetOutOfScope(): Promise<void> {
    const { events, spec, queue } = this.#options;
    const { relatedKinds, watches } = spec.description;
    if (!relatedKinds && !watches.some(({ map }) => map.by === 'related')) return;
    for await (const keys of queue.relatedRules.keys()) {
      this.#stopped.signal.throwIfAborted();
      const left = keys.filter((key) => !events.scope.containsKey(key));
      await Promise.all(left.map((key) => queue.relatedRules.remove(key)));
    }
  }

  /**
   * Queues the keys that have named a kind at low priority, once its views are complete, and whenever the views may
   * lack objects that the keys have read: new, lost or rebuilt views. The kind is recorded first: from then on no
   * gateway without the kind runs keys (`RelatedObjects.isBehind`), so a run that names it later reads it.
   */
  async #ensureRelated(): Promise<void> {
    const { queue, sources, spec, failures } = this.#options;
    const rules = queue.relatedRules;
    const recorded = spec.description.relatedKinds ? await rules.views() : new Map<string, string>();
    const complete = sources.completeRelated;
    const kinds = new Set(complete.map(({ resource }) => formatKind(resource)));
    for (const kind of recorded.keys()) if (!kinds.has(kind)) await rules.removeView(kind);
    for (const { resource, informers } of complete) {
      const kind = formatKind(resource);
      // As for all keys: lookups that fail at each change must not queue the keys each time.
      if (failures.isRecent && recorded.has(kind)) continue;
      const states = await Promise.all(informers.map(({ view }) => view.record.state()));
      const missed = await Promise.all(informers.map(({ view }) => view.record.missedBy(spec.id)));
      if (states.some(({ incarnation }) => incarnation === undefined)) continue;
      const state = JSON.stringify([states.map(({ incarnation }) => incarnation), missed]);
      if (state === recorded.get(kind)) continue;
      await rules.setView(kind, '');
      const queued = new Set<string>();
      for await (const keys of rules.keys(kind)) {
        this.#stopped.signal.throwIfAborted();
        const more = keys.filter((key) => !queued.has(key));
        await this.#pay(more.length);
        await queue.addLow(more, 'initial');
        for (const key of more) queued.add(key);
      }
      await rules.setView(kind, state);
      this.#log.write('info', spec.id, { kind, keys: queued.size }, 'queued the keys that have named a kind');
    }
  }

  /**
   * Queues all keys when the period has passed, as client-go's informers do: that repairs the effects of a lost event
   * or of an outside cause. Redis has the time of the next resync, so a restart does not delay it.
   */
  async #ensureResync({ resyncAtMs }: QueueState): Promise<void> {
    const { spec, queue, pace, runtime } = this.#options;
    const now = runtime.clock.now();
    if (resyncAtMs !== undefined && resyncAtMs > now) return;
    // Up to a tenth later, so that controllers which were started together do not resync together.
    const next = Math.round(now + pace.resyncMs * (1 + Math.random() / 10));
    if (resyncAtMs !== undefined) {
      const count = await this.#queueAll('resync');
      this.#log.write('info', spec.id, { keys: count, next: new Date(next).toISOString() }, 'resync');
    }
    await queue.record.setResyncAt(next);
  }

  /**
   * Queues the keys of the objects that would pass the predicate as new objects, and then the keys that objects of
   * other kinds map to.
   * @returns how many.
   */
  async #queueAll(reason: 'initial' | 'resync'): Promise<number> {
    const { scope, reconciled } = this.#options.events;
    // Pauses end first: if an object gets the annotation during this call, the loops below pause its key again.
    await this.#endPauses();
    const { predicate } = reconciled;
    const forAll = predicate ? predicate.forNew : true;
    const passes = (object: KubernetesObject): boolean =>
      forAll ?? predicate?.passes({ type: 'added', object }) ?? true;
    const test = forAll === true ? undefined : passes;
    const slice = new TimeSlice(tenantOf(this.#options.spec.id), this.#stopped.signal);
    const own = forAll === false ? 0 : await this.#queueEach(keysInScope(scope, { passes: test, slice }), reason);
    return own + (await this.#queueEach(this.#options.secondary.keys(test, slice), reason));
  }

  async #queueEach(parts: AsyncIterable<string[]>, reason: 'initial' | 'resync'): Promise<number> {
    const { events, queue, runtime } = this.#options;
    const { scope } = events;
    let count = 0;
    for await (const keys of parts) {
      await this.#pay(keys.length);
      await settlePauses(queue, scope.views, [...(await pausedAmong(scope.views, keys))]);
      await queue.addLow(keys, reason);
      count += keys.length;
      await runtime.checkpoint('initial:between-keys');
    }
    return count;
  }

  /**
   * Waits until this many keys may be queued: a tenant can have all keys of fifty controllers queued again, by a change
   * of their declarations each second.
   */
  async #pay(keys: number): Promise<void> {
    const { pace, spec } = this.#options;
    const { signal } = this.#stopped;
    signal.throwIfAborted();
    if (tenantOf(spec.id) !== spec.id) await pace.budget.background(keys * KEY_MS, signal);
  }

  /** Ends pauses of objects without the annotation: it may have been removed while no gateway watched. */
  async #endPauses(): Promise<void> {
    const { events, queue } = this.#options;
    for (let after: string | undefined; ;) {
      this.#stopped.signal.throwIfAborted();
      const { pauses, next } = await queue.inspector.pauses(after);
      const keys = pauses.flatMap(({ scope }) => (scope.startsWith('object/') ? [scope.slice('object/'.length)] : []));
      await settlePauses(queue, events.scope.views, keys);
      if (next === undefined) return;
      after = next;
    }
  }

  /** Undefined while the queue or a view has no incarnation yet. */
  #initialHash(incarnations: readonly (string | undefined)[]): string | undefined {
    if (incarnations.includes(undefined)) return undefined;
    const { name, for: reconciled, owns, watches, reads, relatedKinds } = this.#options.spec.description;
    const more = relatedKinds ? [relatedKinds] : [];
    const text = JSON.stringify([name, reconciled, owns, watches, reads, ...more, incarnations]);
    return createHash('sha256').update(text).digest('hex').slice(0, 32);
  }
}
