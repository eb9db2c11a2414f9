import { randomUUID } from 'node:crypto';
import { formatKind, type Resource, type ResourceVersion, isResourceVersion } from '../../core/index.ts';
import { type ViewKeys, viewKeys } from '../../contract/index.ts';
import type { Wakeup } from './change.ts';
import { loadScript, type Redis, type Script } from './redis.ts';

/** Another gateway has written its term into the view: this one must stop writing and see whether it still leads. */
export class ForeignTermError extends Error {
  override readonly name = 'ForeignTermError';
}

/** One operation of the apply script. */
export type ViewOperation =
  | { readonly kind: 'S'; readonly key: string; readonly entry: string; readonly object: string }
  | { readonly kind: 'D'; readonly key: string; readonly version: ResourceVersion };

export interface ViewState {
  /** Up to which the view is complete; undefined until its first list is. */
  readonly version: ResourceVersion | undefined;
  /** Names this filling of the view. Another one means that everything in it may be new. */
  readonly incarnation: string | undefined;
  /** The Redis process that it was written on: another one may have lost the last writes. */
  readonly runId: string | undefined;
}

/** One resource's part of the cache in Redis: reads and the writes of its one writer. All keys share a hash tag. */
export class View {
  readonly resource: Resource;
  readonly prefix: string;
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #apply: Script;
  #term = '';

  constructor(redis: Redis, resource: Resource, prefix: string) {
    this.#redis = redis;
    this.resource = resource;
    this.prefix = prefix;
    this.#keys = viewKeys(prefix);
    this.#apply = loadScript(redis, import.meta.url, 'apply');
  }

  get name(): string {
    return formatKind(this.resource);
  }

  /** Becomes the writer: from now on the scripts refuse every other term. */
  async take(term: string): Promise<void> {
    this.#term = term;
    await this.#redis.hset(this.#keys.view, 'term', term);
  }

  async state(): Promise<ViewState> {
    const [version, incarnation, runId] = await this.#redis.hmget(this.#keys.view, 'version', 'incarnation', 'runId');
    return {
      version: isResourceVersion(version) ? version : undefined,
      incarnation: incarnation ?? undefined,
      runId: runId ?? undefined,
    };
  }

  /** Starts a new incarnation on the Redis process `runId`, with this gateway's term (a flushed view has none). */
  async renew(runId: string): Promise<void> {
    await this.#redis.hset(this.#keys.view, { term: this.#term, incarnation: randomUUID(), runId });
  }

  /** The content may be new as a whole: whoever depends on it starts over. */
  async renewIncarnation(incarnation: string): Promise<void> {
    await this.#redis.hset(this.#keys.view, 'incarnation', incarnation);
  }

  /** Whose term the view carries. */
  async term(): Promise<string | undefined> {
    return (await this.#redis.hget(this.#keys.view, 'term')) ?? undefined;
  }

  /** Entries and objects of these keys, in their order; null where the view has none. */
  async read(keys: readonly string[]): Promise<{ entries: (string | null)[]; objects: (string | null)[] }> {
    const [entries, objects] = await Promise.all([
      this.#redis.hmget(this.#keys.entries, ...keys),
      this.#redis.hmget(this.#keys.objects, ...keys),
    ]);
    return { entries, objects };
  }

  /** All keys, in order, in parts. */
  async *keys(): AsyncGenerator<string[]> {
    let after = '-';
    for (;;) {
      const keys = await this.#redis.zrangebylex(this.#keys.order, after, '+', 'LIMIT', 0, 1000);
      if (keys.length === 0) return;
      yield keys;
      after = `(${keys.at(-1)}`;
    }
  }

  size(): Promise<number> {
    return this.#redis.hlen(this.#keys.objects);
  }

  /**
   * Runs the apply script: all of the chunk, or nothing.
   * @throws ForeignTermError
   */
  async apply(chunk: {
    version?: ResourceVersion;
    incomparable: boolean;
    operations: readonly ViewOperation[];
    wakeups: readonly Wakeup[];
  }): Promise<void> {
    const keys = this.#keys;
    const args: (string | number)[] = [
      this.#term,
      keys.indexPrefix,
      chunk.version ?? '',
      chunk.incomparable ? '1' : '',
    ];
    args.push(chunk.operations.length);
    for (const operation of chunk.operations) {
      if (operation.kind === 'S') args.push('S', operation.key, operation.entry, operation.object);
      else args.push('D', operation.key, operation.version, '');
    }
    args.push(chunk.wakeups.length);
    for (const { controller, key, reasons } of chunk.wakeups) args.push(controller, key, JSON.stringify(reasons));
    const answer = await this.#apply([keys.view, keys.objects, keys.entries, keys.order, keys.outbox], args);
    if (answer === -1) throw new ForeignTermError(`the view of ${this.name} was taken by another gateway`);
  }

  /** Wakeups that no queue has yet, oldest first. */
  async outbox(count: number): Promise<{ id: string; wakeup: Wakeup }[]> {
    const found = await this.#redis.xrange(this.#keys.outbox, '-', '+', 'COUNT', count);
    return found.map(([id, fields]) => {
      // XADD wrote c, k, r in this order.
      const [, controller = '', , key = '', , reasons = '[]'] = fields;
      return { id, wakeup: { controller, key, reasons: JSON.parse(reasons) as Wakeup['reasons'] } };
    });
  }

  async acknowledge(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.xdel(this.#keys.outbox, ...ids);
  }
}
