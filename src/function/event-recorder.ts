import { ApiError, type KubernetesObject, messageOf, type Resource } from '../core/index.ts';
import type { ApiWriter } from './api-writer.ts';
import type { Context } from './controller.ts';
import { type Correlated, EventCorrelator } from './event-correlator.ts';
import type { WrittenSource } from './source.ts';

export interface EventRecorderOptions {
  /** The source of the Events, as `kubectl describe` shows it: the name of the controller. */
  readonly component: string;
  /** Milliseconds since the epoch. Default `Date.now`. */
  readonly now?: () => number;
}

/** Records Events about one object, which `kubectl describe` shows. Neither method waits, and neither fails. */
export interface ObjectEvents {
  /** @param reason one word in CamelCase, for machines: the same for the same cause, even if the message differs. */
  normal(reason: string, message: string): void;
  /** @param reason as for `normal`. */
  warning(reason: string, message: string): void;
}

/**
 * Records Events (core `v1`) as client-go's recorder does (tools/record). A repeated Event raises `count`. More than
 * ten similar Events within ten minutes (same object, type and reason) are combined into one Event. Beyond 25 Events of
 * a type about one object, at most one in five minutes is written. The recorder keeps the counts in the memory of the
 * process, within a bound, so make one recorder for a module, not one for a run. On a platform that keeps no process,
 * Events are repeated and not counted.
 *
 * ```ts
 * const recorder = new EventRecorder({ component: 'site-controller' });
 * // ... in the run:
 * recorder.about(Site, site, context).normal('Deployed', `Deployed version ${version}`);
 * ```
 *
 * A failed write of an Event does not fail the run. The outcome waits for writes in progress, at most a second. The
 * recorder logs a warning for an Event that it could not write.
 */
export class EventRecorder {
  /** What it writes, for `ControllerOptions.writes`. */
  readonly writes: WrittenSource = { resource: Event, verbs: ['create', 'patch'] };
  readonly #options: EventRecorderOptions;
  readonly #correlator: EventCorrelator;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#correlator = new EventCorrelator(options.now ?? Date.now);
  }

  /** Records for this run. A cluster-scoped object's Events are in the namespace `default`. */
  about(kind: Resource, object: KubernetesObject, { api, log }: Pick<Context, 'api' | 'log'>): ObjectEvents {
    const { apiVersion, kind: name } = kind;
    const { namespace, name: objectName, uid, resourceVersion } = object.metadata;
    const involvedObject = {
      apiVersion,
      kind: name,
      ...(namespace ? { namespace } : {}),
      name: objectName,
      uid,
      resourceVersion,
    };
    const tell = (type: 'Normal' | 'Warning', reason: string, message: string): void => {
      const told = this.#correlator.observe(involvedObject, { type, reason, message });
      if (told) api.waitUntil(this.#deliver(told, involvedObject, { api, log }));
    };
    return {
      normal: (reason, message) => tell('Normal', reason, message),
      warning: (reason, message) => tell('Warning', reason, message),
    };
  }

  /**
   * Writes until the apiserver has the Event's current count. If several runs record the same Event, one of them
   * writes.
   */
  async #deliver(told: Correlated, regarding: object, { api, log }: Pick<Context, 'api' | 'log'>): Promise<void> {
    while (told.written < told.count) {
      if (told.writing) {
        await told.writing;
        continue;
      }
      const { count } = told;
      const { promise, resolve } = Promise.withResolvers<void>();
      told.writing = promise;
      try {
        await this.#write(told, regarding, api);
      } catch (error) {
        const { reason, type } = told;
        log.warn({ event: reason, type, error: messageOf(error) }, 'an event was not written');
      } finally {
        // A failed Event is dropped: by the time of a retry it would be out of date.
        told.written = count;
        told.writing = undefined;
        resolve();
      }
    }
  }

  async #write(told: Correlated, involvedObject: { namespace?: string }, api: ApiWriter): Promise<void> {
    const { name, count, message, type, reason, firstTimestamp, lastTimestamp } = told;
    const namespace = involvedObject.namespace ?? 'default';
    if (told.exists) {
      try {
        const body = { count, message, lastTimestamp };
        await api.patch(Event, { namespace, name }, { type: 'merge', body });
        return;
      } catch (error) {
        // The apiserver deletes Events after an hour.
        if (!(error instanceof ApiError && error.code === 404)) throw error;
      }
    }
    const { component } = this.#options;
    await api.create(Event, {
      metadata: { namespace, name },
      involvedObject,
      type,
      reason,
      message,
      count,
      firstTimestamp,
      lastTimestamp,
      source: { component },
      reportingComponent: component,
    });
    told.exists = true;
  }
}

interface Event extends KubernetesObject {
  involvedObject: object;
  type: string;
  reason: string;
  message: string;
  count: number;
  firstTimestamp: string;
  lastTimestamp: string;
  source: { component: string };
  reportingComponent: string;
}
const Event: Resource<Event> = { apiVersion: 'v1', kind: 'Event', plural: 'events', namespaced: true };
