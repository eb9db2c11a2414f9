import { type Context, type KubernetesObject, type NewObject, type Resource, resource } from 'levelhook/function';
import { inParallel } from './in-parallel.ts';

/** Of one reason in one run. Those beyond become one more, that counts them, as client-go's recorder has it. */
export const DISTINCT_EVENTS = 9;
const EVENTS_AT_A_TIME = 10;

export interface Event extends KubernetesObject {
  involvedObject: { apiVersion: string; kind: string; namespace?: string; name: string; uid: string };
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
  source: { component: string };
  reportingComponent: string;
  firstTimestamp: string;
  lastTimestamp: string;
  count: number;
}

export const Event = resource<Event>('v1', 'Event');

/** Collects what there is to tell of a run in Events of its object, so that telling does not delay doing. */
export class EventRecorder {
  readonly #resource: Resource;
  readonly #object: KubernetesObject;
  readonly #component: string;
  readonly #events: NewObject<Event>[] = [];

  /** @param component who tells: the name that kube-controller-manager's own controller has in its events. */
  constructor(resource: Resource, object: KubernetesObject, component: string) {
    this.#resource = resource;
    this.#object = object;
    this.#component = component;
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
    const now = new Date().toISOString();
    const similar = this.#events.filter((event) => event.type === type && event.reason === reason);
    const combined = similar[DISTINCT_EVENTS];
    const known = combined ?? similar.find((event) => event.message === message);
    if (known) {
      known.count += 1;
      known.lastTimestamp = now;
      if (known === combined) known.message = inCombination(message);
      return;
    }
    const { name, uid, namespace = 'default' } = this.#object.metadata;
    const { apiVersion, kind } = this.#resource;
    this.#events.push({
      metadata: { namespace, generateName: `${name}.` },
      involvedObject: { apiVersion, kind, namespace, name, uid },
      type,
      reason,
      message: similar.length === DISTINCT_EVENTS ? inCombination(message) : message,
      source: { component: this.#component },
      reportingComponent: this.#component,
      firstTimestamp: now,
      lastTimestamp: now,
      count: 1,
    });
  }
}

/** The last one's message stands for all. */
function inCombination(message: string): string {
  return `(combined from similar events): ${message}`;
}
