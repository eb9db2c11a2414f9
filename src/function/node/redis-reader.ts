import type { Redis } from 'ioredis';
import {
  formatKind,
  type KubernetesObject,
  type ObjectKey,
  parseFieldSelector,
  requirementsOf,
  type Resource,
  systemClock,
} from '../../core/index.ts';
import type { CacheLocation, Selection, ViewLocation } from '../../contract/index.ts';
import { viewKeys } from '../../contract/cache-layout.ts';
import { observedAtMs, observedItem } from '../../contract/observed.ts';
import { checkFields, needDefinition } from '../../contract/selectable-fields.ts';
import { namespaceOfSelection } from '../../contract/selection.ts';
import { cachedKey } from '../../contract/node/cached-name.ts';
import { LostWritesError, ViewReader } from '../../contract/node/view-reader.ts';
import { type CacheReader, type KeptOut, type ListOptions, type ListResult, SYNC_WAIT_MS } from '../cache-reader.ts';
import { canExist, joinedLists, viewName, viewsOf } from '../cache-views.ts';
import { HttpReader } from '../http-reader.ts';
import { MergedGets } from './merged-gets.ts';
import { undiciFetch } from './undici-fetch.ts';

export interface RedisReaderOptions {
  /** How long a read waits for a cache that is being filled for the first time. Default 5000. */
  readonly syncWaitMs?: number;
  /** Ends the waiting. Default: never. */
  readonly signal?: AbortSignal;
  /** The function's steady time when the trigger came, in milliseconds. Default: when the reader was made. */
  readonly startedMs?: number;
  /** The highest position that a read of the run has seen, by `viewName`. Default: kept for this reader alone. */
  readonly positions?: Map<string, number>;
}

/**
 * The `CacheReader` over one trigger's views. It needs two round trips for a list by an index, and one command for an
 * object; gets of one turn of the event loop share a command. It has no keys, so it throws a TypeError for encrypted
 * kinds. Lists by the `selectableFields` of a definition, and by an owner without a namespace, are left to the cache
 * API, because the gateway knows definitions and which kinds are cluster-scoped. Where the trigger names no cache API,
 * an owner without a namespace may be of any kind, so that objects with a copied UID are found too.
 */
export class RedisReader implements CacheReader {
  readonly #redis: Redis;
  readonly #location: CacheLocation;
  readonly #options: RedisReaderOptions;
  readonly #startedMs: number;
  readonly #positions: Map<string, number>;

  constructor(redis: Redis, location: CacheLocation, options: RedisReaderOptions = {}) {
    this.#redis = redis;
    this.#location = location;
    this.#options = options;
    this.#startedMs = options.startedMs ?? systemClock.now();
    this.#positions = options.positions ?? new Map<string, number>();
  }

  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    // For this controller, a namespace that is not cached has no objects.
    const [location] = viewsOf(this.#location, resource, key.namespace);
    if (!location || !canExist(resource, key)) return undefined;
    const name = cachedKey(key);
    const read = await this.#read(resource, location, () => MergedGets.of(this.#redis).get(location.prefix, name));
    return new ViewReader(this.#redis, location.prefix).found(name, read.stored)?.decode() as T | undefined;
  }

  async list<T extends KubernetesObject>(resource: Resource<T>, options: ListOptions = {}): Promise<ListResult<T>> {
    const owner = options.controlledBy?.metadata;
    const isUidAlone = owner !== undefined && !owner.namespace && this.#location.url !== undefined;
    if (isUidAlone || needDefinition(resource, parseFieldSelector(options.fieldSelector ?? ''))) {
      const ofRun = { ...this.#options, positions: this.#positions, fetch: undiciFetch };
      return new HttpReader(this.#location, ofRun).list(resource, options);
    }
    const selection = selectionOf(resource, options);
    const views = viewsOf(this.#location, resource, namespaceOfSelection(options));
    const lists = views.map((location) => {
      const view = new ViewReader(this.#redis, location.prefix);
      return this.#read(resource, location, (known) => listed(view, selection, known));
    });
    return joinedLists(await Promise.all(lists)) as ListResult<T>;
  }

  async secondsUnchanged(
    resource: Resource,
    key: ObjectKey,
    field: string,
    item?: object,
  ): Promise<number | undefined> {
    const [location] = viewsOf(this.#location, resource, key.namespace);
    const { now } = this.#location;
    if (!location || now === undefined || !canExist(resource, key)) return undefined;
    const identity = item && observedItem(field, item);
    if (item && identity === undefined) return undefined;
    const { stored } = await this.#read(resource, location, async () => {
      const [stored, position] = await Promise.all([
        this.#redis.hget(viewKeys(location.prefix).observedPrefix + field, cachedKey(key)),
        new ViewReader(this.#redis, location.prefix).position(),
      ]);
      return { stored, position };
    });
    const sinceMs = stored === null ? undefined : observedAtMs(stored, identity);
    if (sinceMs === undefined) return undefined;
    const nowMs = now + systemClock.now() - this.#startedMs;
    return Math.max(0, nowMs - sinceMs) / 1000;
  }

  /**
   * Repeats the read until the view may be read and is as new as at the run's start and at the end of each earlier
   * read.
   */
  async #read<R extends { readonly position: number | undefined }>(
    resource: Resource,
    { namespace, position = 0 }: ViewLocation,
    read: (known: number) => Promise<R>,
  ): Promise<R> {
    const { syncWaitMs = SYNC_WAIT_MS } = this.#options;
    const view = viewName(resource, namespace);
    const until = systemClock.now() + syncWaitMs;
    const known = Math.max(position, this.#positions.get(view) ?? 0);
    for (;;) {
      const answer = await read(known);
      if (answer.position !== undefined && answer.position >= known) {
        this.#positions.set(view, Math.max(this.#positions.get(view) ?? 0, answer.position));
        return answer;
      }
      this.#options.signal?.throwIfAborted();
      if (systemClock.now() >= until) {
        const reason =
          answer.position === undefined ? 'is not complete yet' : 'lacks writes that this run may have seen';
        throw new Error(`the cache of ${formatKind(resource)} ${reason}`);
      }
      await systemClock.sleep(Math.min(POLL_MS, Math.max(1, until - systemClock.now())));
    }
  }
}

/** @param known the least position. An older view gives its state alone. */
async function listed(view: ViewReader, selection: Selection, known: number) {
  const items: KubernetesObject[] = [];
  const keptOut: KeptOut[] = [];
  const state = await view.state(selection);
  if (!state || state.position < known) return { items, keptOut, version: '0', position: state?.position };
  let { position } = state;
  const options = {
    state,
    onKeptOut: ({ key, reason }: KeptOut): void => void keptOut.push({ key, reason }),
    onPosition: (read: number): void => void (position = Math.max(position, read)),
  };
  try {
    for await (const batch of view.select(selection, options)) {
      items.push(...batch.map((each) => each.decode()));
    }
  } catch (error) {
    if (error instanceof LostWritesError) return { items: [], keptOut: [], version: '0', position: undefined };
    throw error;
  }
  return { items, keptOut, version: state.version, position };
}

const POLL_MS = 50;

function selectionOf(resource: Resource, { labelSelector, fieldSelector, ...options }: ListOptions): Selection {
  const fields = parseFieldSelector(fieldSelector ?? '');
  checkFields(resource, fields);
  const labels = requirementsOf(labelSelector ?? '');
  return {
    ...options,
    ...(labels.length > 0 ? { labels } : {}),
    ...(fields.length > 0 ? { fields } : {}),
  };
}
