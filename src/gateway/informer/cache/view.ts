import { formatKind, type Resource } from '../../../core/index.ts';
import { KEPT_OUT_INDEX, LEFT_OUT_INDEX, type ViewKeys, viewKeys } from '../../../contract/cache-layout.ts';
import type { ViewLocation } from '../../../contract/index.ts';
import { ObjectCodec } from '../../../contract/node/codec.ts';
import { ViewReader } from '../../../contract/node/view-reader.ts';
import type { Chunk } from './chunk.ts';
import { Indexer, type IndexTime } from './indexer.ts';
import { Observations, type ObservedValues } from './observations.ts';
import { LastWritten } from './last-written.ts';
import { Outbox, type OutboxEntry, wakeupArguments } from './outbox.ts';
import { ViewObjects } from './view-objects.ts';
import { ViewRecord } from './view-record.ts';
import { ViewWriter } from './view-writer.ts';
import { type MemoryGuard, type MemoryHolder, unlimitedMemory } from '../../../ground/redis/memory-shares.ts';
import { loadScript, type Redis, type Script, unlinkAll } from '../../../ground/redis/redis.ts';

/** Limits for the objects of a view. */
export interface ViewBounds {
  /** Of Redis' memory. Default: no bound. */
  readonly memory?: MemoryGuard | undefined;
  /**
   * Of processor time for the index values of large objects, by namespace; by `kindAccount` for objects without one.
   * Default: no bound.
   */
  readonly indexTime?: ((namespace: string) => IndexTime) | undefined;
}

/**
 * One resource's part of the cache in Redis. Its parts read and write it, and `apply` changes them together. All keys
 * share a hash tag.
 */
export class View implements MemoryHolder {
  readonly holding = 'objects';
  /** See `MemoryPlace`. */
  onlyReader: string | undefined;
  readonly resource: Resource;
  readonly location: ViewLocation;
  /** How far it is, and who received its changes. */
  readonly record: ViewRecord;
  readonly objects: ViewObjects;
  /** The right to write to it, which one gateway has. */
  readonly writer: ViewWriter;
  /** Wakeups of its changes that are in no queue yet. */
  readonly outbox: Outbox;
  /** Its indexes. */
  readonly indexer: Indexer;
  /** Since when the values of observed fields are unchanged. */
  readonly observations: Observations;
  readonly #redis: Redis;
  readonly #keys: ViewKeys;
  readonly #lastWritten: LastWritten;
  readonly #apply: Script;
  readonly #memory: MemoryGuard;
  readonly #weigh: Script;

  /**
   * @param codec Default: encrypts nothing.
   * @param bounds limits on the memory and the time that the objects take. Default: no limits.
   */
  constructor(
    redis: Redis,
    resource: Resource,
    location: ViewLocation,
    codec: ObjectCodec = new ObjectCodec({ prefix: location.prefix }),
    { memory = unlimitedMemory, indexTime }: ViewBounds = {},
  ) {
    this.#redis = redis;
    this.resource = resource;
    this.location = location;
    this.#memory = memory;
    this.#keys = viewKeys(location.prefix);
    this.#lastWritten = new LastWritten(redis);
    const keys = this.#keys;
    const lastWritten = this.#lastWritten;
    const writer = new ViewWriter(redis, this.name, keys, () => lastWritten.forget());
    this.writer = writer;
    this.record = new ViewRecord(redis, keys.view, writer, lastWritten);
    this.objects = new ViewObjects(redis, { name: this.name, keys, writer, lastWritten, codec });
    this.outbox = new Outbox(redis, keys.outbox);
    const account = kindAccount(resource);
    const timeOf = indexTime && ((namespace: string) => indexTime(namespace || account));
    const onMoved = (moved: readonly string[]): void => lastWritten.current.forgetEntries(moved);
    this.indexer = new Indexer(redis, keys, writer, onMoved, timeOf);
    this.observations = new Observations(redis, keys, writer, timeOf);
    this.#apply = loadScript(redis, import.meta.url, 'apply');
    this.#weigh = loadScript(redis, import.meta.url, 'weigh-objects');
  }

  /** The kind, and the namespace of a view that holds one. */
  get name(): string {
    const { namespace } = this.location;
    return namespace === undefined ? formatKind(this.resource) : `${formatKind(this.resource)} in ${namespace}`;
  }

  /** Begins all its keys in Redis. */
  get prefix(): string {
    return this.location.prefix;
  }

  /** Reads it as functions and clients do. @param tenant see `ViewObjects.inTurn`. Default: the gateway itself */
  reader(tenant = ''): ViewReader {
    const { encryptedBy } = this.objects;
    const decode = (key: string, stored: Buffer): Buffer => this.objects.decode(key, stored);
    return new ViewReader(this.#redis, this.location.prefix, { decode, encryptedBy }, (read) =>
      this.objects.inTurn(tenant, read),
    );
  }

  /** Whether an object of this namespace would be here. */
  contains(namespace: string | undefined): boolean {
    return this.location.namespace === undefined || this.location.namespace === namespace;
  }

  /** Who has memory for an object of this namespace: the namespace; for one of the cluster its kind. */
  payerOf(namespace: string | undefined): string {
    return namespace ?? kindAccount(this.resource);
  }

  /** See `MemoryGuard.reserve`. @param sizes pairs of a payer and the bytes to write for it. */
  reserve(sizes: () => readonly (readonly [payer: string | undefined, bytes: number])[]): Promise<void> {
    return this.#memory.reserve(this, sizes);
  }

  /** Why objects of this payer are kept out for want of memory; undefined: they are not. */
  leftOut(payer: string | undefined): string | undefined {
    return this.#memory.leftOut(this, payer);
  }

  /** See `MemoryHolder`. */
  async weigh(): Promise<ReadonlyMap<string, number>> {
    const sums = new Map(this.outbox.weigh());
    const { entries, objects, order } = this.#keys;
    for (let from = '-'; ;) {
      const [last, ...found] = (await this.#weigh([order, objects, entries], [from])) as [string, ...unknown[]];
      for (let at = 0; at < found.length; at += 3) {
        const namespace = String(found[at]);
        const observed = Number(found[at + 2]) * this.observations.bytesIn(namespace);
        const payer = this.payerOf(namespace || undefined);
        sums.set(payer, (sums.get(payer) ?? 0) + Number(found[at + 1]) + observed);
      }
      if (last === '') return sums;
      from = `(${last}`;
    }
  }

  /** Removes all of it, as if Redis had lost it. */
  async discard(): Promise<void> {
    this.#lastWritten.forget();
    const { entries, indexPrefix, objects, order, view } = this.#keys;
    // In one step: a version without its objects would count as a complete view if the gateway ended here, and marks
    // without their counts would never be counted.
    const marks = [KEPT_OUT_INDEX, LEFT_OUT_INDEX].map((index) => indexPrefix + index);
    await this.#redis.unlink(view, objects, entries, order, ...marks);
    await unlinkAll(this.#redis, `${this.location.prefix}:`);
  }

  /**
   * Runs the apply script, which applies the whole chunk or nothing, and deletes acknowledged entries of the outbox.
   * @returns the entries that it has added to the outbox: the chunk's wakeups.
   * @throws ForeignWriterError
   */
  async apply(chunk: Chunk): Promise<readonly OutboxEntry[]> {
    const { objects, entries, order, outbox, indexPrefix } = this.#keys;
    const known = this.#lastWritten.current;
    const relayed = this.outbox.deletable();
    const args: (string | number | Buffer)[] = [
      indexPrefix,
      chunk.version ?? '',
      chunk.incomparable ? '1' : '',
      chunk.incarnation ?? '',
      chunk.users.join('\n'),
      chunk.failed.join('\n'),
      chunk.onlyNew ? '1' : '',
      chunk.shownMs ?? '',
      relayed.length,
      ...relayed,
      chunk.operations.length,
    ];
    const observed: (ObservedValues | undefined)[] = [];
    for (const operation of chunk.operations) {
      if (operation.kind === 'S') {
        args.push('S', operation.key, operation.entry, operation.object);
        observed.push(operation.observed);
      } else args.push('D', operation.key, operation.version, '');
    }
    args.push(...this.observations.arguments(observed));
    args.push(chunk.wakeups.length);
    for (const wakeup of chunk.wakeups) args.push(...wakeupArguments(wakeup));
    const answer = await this.writer.run(this.#apply, [objects, entries, order, outbox], args);
    const [changed, position, ...ids] = answer as [number, number, ...string[]];
    this.record.recordPosition(position);
    this.outbox.recordDeleted(relayed);
    known.recordApplied(chunk, changed === chunk.operations.length);
    const added = chunk.wakeups.map((wakeup, at) => ({ id: ids[at] ?? '', controller: wakeup.controller, wakeup }));
    this.outbox.recordWaiting(added);
    return added;
  }
}

/**
 * Pays for objects without a namespace, as a namespace does for its own: `(example.com/v1/Thing)`, which is the name of
 * no namespace.
 */
function kindAccount(resource: Resource): string {
  return `(${formatKind(resource)})`;
}
