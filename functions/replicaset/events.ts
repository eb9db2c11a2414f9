import type { Context, NewObject } from 'levelhook/function';
import { inParallel } from './in-parallel.ts';
import { Event, ReplicaSet } from './types.ts';

/** The name that kube-controller-manager's own controller has in its events. */
const COMPONENT = 'replicaset-controller';
/** Of each type in one run. client-go's recorder lets through 25 about one object at once, and drops the rest. */
export const MAX_EVENTS = 25;
const EVENTS_AT_A_TIME = 10;

/** Collects what there is to tell of a run in Events of the ReplicaSet, so that telling does not delay doing. */
export class EventRecorder {
  readonly #rs: ReplicaSet;
  readonly #events: NewObject<Event>[] = [];

  constructor(rs: ReplicaSet) {
    this.#rs = rs;
  }

  normal(reason: string, message: string): void {
    this.#add('Normal', reason, message);
  }

  warning(reason: string, message: string): void {
    this.#add('Warning', reason, message);
  }

  /** Writes the events. Never rejects: a run does not fail for an event. */
  async send({ api, log }: Context): Promise<void> {
    const outcomes = await inParallel(this.#events.splice(0), EVENTS_AT_A_TIME, (event) => api.create(Event, event));
    const lost = outcomes.filter(({ status }) => status === 'rejected').length;
    if (lost > 0) log.warn({ lost }, 'some events were not written');
  }

  #add(type: Event['type'], reason: string, message: string): void {
    if (this.#events.filter((event) => event.type === type).length >= MAX_EVENTS) return;
    const { name, uid, namespace = 'default' } = this.#rs.metadata;
    const { apiVersion, kind } = ReplicaSet;
    const now = new Date().toISOString();
    this.#events.push({
      metadata: { namespace, generateName: `${name}.` },
      involvedObject: { apiVersion, kind, namespace, name, uid },
      type,
      reason,
      message,
      source: { component: COMPONENT },
      reportingComponent: COMPONENT,
      firstTimestamp: now,
      lastTimestamp: now,
      count: 1,
    });
  }
}
