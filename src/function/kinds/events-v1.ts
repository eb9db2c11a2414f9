// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';
import type { EventSource, ObjectReference } from './core-v1.ts';

/** Event is a report of an event somewhere in the cluster. */
export interface Event extends KubernetesObject {
  /** action is what action was taken/failed regarding to the regarding object. */
  action?: string;
  /** deprecatedCount is the deprecated field assuring backward compatibility with core.v1 Event type. */
  deprecatedCount?: number;
  /** deprecatedFirstTimestamp is the deprecated field assuring backward compatibility with core.v1 Event type. */
  deprecatedFirstTimestamp?: string;
  /** deprecatedLastTimestamp is the deprecated field assuring backward compatibility with core.v1 Event type. */
  deprecatedLastTimestamp?: string;
  /** deprecatedSource is the deprecated field assuring backward compatibility with core.v1 Event type. */
  deprecatedSource?: EventSource;
  /** eventTime is the time when this Event was first observed. */
  eventTime: string;
  /** note is a human-readable description of the status of this operation. */
  note?: string;
  /** reason is why the action was taken. */
  reason?: string;
  /** regarding contains the object this Event is about. */
  regarding?: ObjectReference;
  /** related is the optional secondary object for more complex actions. */
  related?: ObjectReference;
  /** reportingController is the name of the controller that emitted this Event, e.g. */
  reportingController?: string;
  /** reportingInstance is the ID of the controller instance, e.g. */
  reportingInstance?: string;
  /** series is data about the Event series this event represents or nil if it's a singleton Event. */
  series?: EventSeries;
  /** type is the type of this event (Normal, Warning), new types could be added in the future. */
  type?: string;
}
export const Event: Resource<Event> = /* @__PURE__ */ resource<Event>('events.k8s.io/v1', 'Event');

/** EventSeries contain information on series of events, i.e. */
export interface EventSeries {
  /** count is the number of occurrences in this series up to the last heartbeat time. */
  count: number;
  /** lastObservedTime is the time when last Event from the series was seen before last heartbeat. */
  lastObservedTime: string;
}
