import { createHash } from 'node:crypto';
import type { Clock } from '../../../core/index.ts';
import type { KeyList } from '../../controller/workqueue/work-queue.ts';
import type { ShownQueue } from './data.ts';

/** The lists of keys that are grouped by error. */
export type ErrorList = Extract<KeyList, 'dead' | 'failing'>;

/** Keys of one controller whose errors differ only in names and numbers. */
export interface ErrorGroup {
  readonly id: string;
  readonly controller: string;
  /** The error of one of them. */
  readonly error: string;
  readonly count: number;
  /** The first of them. */
  readonly keys: readonly string[];
  /** When the first and the last of them became a dead letter, or failed first. */
  readonly oldestMs: number;
  readonly newestMs: number;
}

export interface ErrorGroups {
  /** The largest first. */
  readonly groups: readonly ErrorGroup[];
  /** All keys of the list. */
  readonly total: number;
  /** How many of them are in the groups: those among the oldest, of the first groups. */
  readonly grouped: number;
}

/** Keys that one step reads: short commands, which let others between them. */
const STEP = 250;
/** Of one controller, as many are grouped. */
const MOST = 20_000;
const EXAMPLES = 5;
/** Groups of one controller, and of all: each may have an error of its own text. Keys of further groups are counted. */
const MOST_GROUPS_EACH = 200;
const MOST_GROUPS = 2000;
/**
 * All visitors see the same groups for `FRESH_MS`, or for `FRESH_FACTOR` times the time that reading them took if that
 * is longer.
 */
const FRESH_MS = 2000;
const FRESH_FACTOR = 20;

/**
 * Groups dead letters, or failing keys, of all controllers by error, page by page, and keeps the result for a moment.
 */
export class ErrorGrouping {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #latest = new Map<ErrorList, { untilMs: number; readonly groups: Promise<ErrorGroups> }>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** The groups as they are now, or were a moment ago. */
  async groups(list: ErrorList, queues: ReadonlyMap<string, ShownQueue>): Promise<ErrorGroups> {
    const now = this.#clock.now();
    const known = this.#latest.get(list);
    if (known && now < known.untilMs) return known.groups;
    // Visitors that ask during the read wait for it.
    const latest = { untilMs: Infinity, groups: group(list, queues) };
    this.#latest.set(list, latest);
    try {
      const groups = await latest.groups;
      const endMs = this.#clock.now();
      latest.untilMs = endMs + Math.max(FRESH_MS, FRESH_FACTOR * (endMs - now));
      return groups;
    } catch (error) {
      this.forget();
      throw error;
    }
  }

  /** The lists have changed: the next visitor sees that. */
  forget(): void {
    this.#latest.clear();
  }
}

async function group(list: ErrorList, queues: ReadonlyMap<string, ShownQueue>): Promise<ErrorGroups> {
  const groups = new Map<string, ErrorGroup>();
  let [total, grouped] = [0, 0];
  // Each controller has its share: the errors of one tenant hide those of no other.
  const most = Math.max(1, Math.min(MOST_GROUPS_EACH, Math.floor(MOST_GROUPS / queues.size)));
  // One after the other: a page must not keep Redis busy.
  for (const [controller, queue] of queues) {
    let [ofQueue, made] = [0, 0];
    for await (const part of keysWithErrors(queue, list)) {
      ofQueue = part.total;
      for (const { key, atMs, error } of part.keys) {
        const id = groupId(controller, key, error);
        const known = groups.get(id);
        if (!known && made >= most) continue;
        if (!known) made += 1;
        grouped += 1;
        groups.set(id, {
          id,
          controller,
          error: known?.error ?? error,
          count: (known?.count ?? 0) + 1,
          keys: known ? [...known.keys, key].slice(0, EXAMPLES) : [key],
          oldestMs: Math.min(known?.oldestMs ?? Infinity, atMs),
          newestMs: Math.max(known?.newestMs ?? 0, atMs),
        });
      }
    }
    total += ofQueue;
  }
  return { groups: [...groups.values()].toSorted((a, b) => b.count - a.count), total, grouped };
}

/** The keys of one group, as they are now. */
export async function keysOfGroup(
  list: ErrorList,
  { controller, queue }: { readonly controller: string; readonly queue: ShownQueue },
  id: string,
): Promise<string[]> {
  const keys: string[] = [];
  for await (const part of keysWithErrors(queue, list)) {
    for (const { key, error } of part.keys) if (groupId(controller, key, error) === id) keys.push(key);
  }
  return keys;
}

interface KeyWithError {
  readonly key: string;
  readonly atMs: number;
  readonly error: string;
}

async function* keysWithErrors(
  queue: ShownQueue,
  list: ErrorList,
): AsyncGenerator<{ readonly total: number; readonly keys: readonly KeyWithError[] }> {
  for (let offset = 0; offset < MOST; offset += STEP) {
    const { keys, total } = await queue.inspector.list(list, { offset, limit: STEP });
    const errors = await queue.history.lastErrors(keys.map(({ key }) => key));
    yield { total, keys: keys.map((each, at) => ({ ...each, error: errors[at] ?? 'no error is on record' })) };
    if (offset + keys.length >= total || keys.length === 0) return;
  }
}

/** The same for errors that differ only in the key's own name and in numbers. */
function groupId(controller: string, key: string, error: string): string {
  const slash = key.indexOf('/');
  const names = [key, key.slice(slash + 1), slash > 0 ? key.slice(0, slash) : ''].filter((name) => name.length > 2);
  const general = names
    .reduce((text, name) => text.replaceAll(name, '…'), error)
    .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '#')
    .replaceAll(/\d+/g, '#');
  return createHash('sha256').update(`${controller}\n${general}`).digest('base64url').slice(0, 16);
}
