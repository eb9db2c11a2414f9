import { NewestMap, TokenBucket } from '../core/index.ts';

/** One Event that exists at the apiserver, or will be created there. */
export interface Correlated {
  readonly name: string;
  readonly type: string;
  readonly reason: string;
  /** RFC 3339. */
  readonly firstTimestamp: string;
  lastTimestamp: string;
  message: string;
  /** How often it was recorded, and the count that was last written or given up. */
  count: number;
  written: number;
  /** It was created. */
  exists: boolean;
  /** Set while a write is under way. Never rejects. */
  writing?: Promise<void> | undefined;
}

/** The defaults of client-go's `EventCorrelator` (tools/record/events_cache.go). */
const MAX_RECORDS = 4096;
const MAX_SIMILAR = 10;
const SIMILAR_WITHIN_MS = 600_000;
const RATE = { burst: 25, perSecond: 1 / 300 };

/**
 * Decides whether an event becomes a new Event, raises the count of an earlier one, joins a combined one, or is
 * dropped. Its memory is bounded.
 */
export class EventCorrelator {
  readonly #now: () => number;
  readonly #events = new NewestMap<string, Correlated>(MAX_RECORDS);
  readonly #similar = new NewestMap<string, { readonly messages: Set<string>; lastMs: number }>(MAX_RECORDS);
  readonly #spam = new NewestMap<string, TokenBucket>(MAX_RECORDS);

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Returns undefined when there were too many events about this object; the event is counted anyway. */
  observe(
    involvedObject: { readonly name: string },
    { type, reason, message }: { type: string; reason: string; message: string },
  ): Correlated | undefined {
    const nowMs = this.#now();
    const { resourceVersion: _, ...identity } = involvedObject as { name: string; resourceVersion?: string };
    const about = JSON.stringify([identity, type]);
    const group = JSON.stringify([about, reason]);
    const combined = this.#isOneOfMany(group, message, nowMs);
    const key = combined ? group : JSON.stringify([group, message]);
    const at = new Date(nowMs).toISOString().replace(/[.][0-9]+Z$/, 'Z');
    const event = use(this.#events, key, () => ({
      name: nameFor(involvedObject.name),
      type,
      reason,
      firstTimestamp: at,
      lastTimestamp: at,
      message,
      count: 0,
      written: 0,
      exists: false,
    }));
    event.count += 1;
    event.lastTimestamp = at;
    event.message = combined ? `(combined from similar events): ${message}` : message;
    const isSpam = !use(this.#spam, about, () => new TokenBucket(RATE, this.#now)).take();
    return isSpam ? undefined : event;
  }

  #isOneOfMany(group: string, message: string, nowMs: number): boolean {
    const record = use(this.#similar, group, () => ({ messages: new Set<string>(), lastMs: nowMs }));
    if (nowMs - record.lastMs > SIMILAR_WITHIN_MS) record.messages.clear();
    record.messages.add(message);
    record.lastMs = nowMs;
    if (record.messages.size < MAX_SIMILAR) return false;
    // The set grows no further, because only reaching the limit matters.
    for (const first of record.messages) {
      record.messages.delete(first);
      break;
    }
    return true;
  }
}

/** The record of a key, which is the most recently used one from now on. */
function use<T>(records: NewestMap<string, T>, key: string, make: () => T): T {
  const record = records.get(key) ?? make();
  records.set(key, record);
  return record;
}

const MAX_NAME_LENGTH = 253;

/** Random, and not a time as client-go's: many processes may record Events, and their clocks have milliseconds only. */
function nameFor(objectName: string): string {
  const suffix = crypto.randomUUID().replaceAll('-', '').slice(0, 16);
  return `${objectName.slice(0, MAX_NAME_LENGTH - suffix.length - 1).replace(/[^a-z0-9]+$/, '')}.${suffix}`;
}
