import { setTimeout as sleep } from 'node:timers/promises';
import type { LookupWakeup, Wakeup } from '../../../src/gateway/informer/cache/change.ts';
import { resolveLookup, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import { Outbox, type OutboxEntry } from '../../../src/gateway/informer/cache/outbox.ts';
import type { Chunk } from '../../../src/gateway/informer/cache/chunk.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import type { MakeView } from './gateway-under-test.ts';

type Parts = Parameters<MakeView>[0];

/** No outbox in Redis: wakeups are kept in the gateway's memory until the relay takes them. */
class MemoryOutbox extends Outbox {
  readonly #waiting: OutboxEntry[] = [];
  #count = 0;

  append(wakeups: readonly Wakeup[]): OutboxEntry[] {
    const entries = wakeups.map((wakeup) => {
      return { id: String((this.#count += 1)), controller: wakeup.controller, wakeup };
    });
    this.#waiting.push(...entries);
    return entries;
  }

  override read(count: number): Promise<OutboxEntry[]> {
    return Promise.resolve(this.#waiting.slice(0, count));
  }

  override acknowledge(ids: readonly string[]): void {
    this.#waiting.splice(0, ids.length);
  }
}

class WithoutOutbox extends View {
  override readonly outbox: MemoryOutbox;

  constructor({ redis, resource, prefix }: Parts) {
    super(redis, resource, { prefix });
    this.outbox = new MemoryOutbox(redis, viewKeys(prefix).outbox);
  }

  override async apply(chunk: Chunk): Promise<OutboxEntry[]> {
    await super.apply({ ...chunk, wakeups: [] });
    return this.outbox.append(chunk.wakeups);
  }
}

/** The version moves first, then the objects are written. */
class VersionOutsideScript extends View {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    super(parts.redis, parts.resource, { prefix: parts.prefix });
    this.#parts = parts;
  }

  override async apply({ version, ...chunk }: Chunk): Promise<readonly OutboxEntry[]> {
    if (version !== undefined) {
      await this.#parts.redis.hset(viewKeys(this.#parts.prefix).view, 'version', version);
      await this.#parts.checkpoint('apply:before-script');
    }
    return super.apply(chunk);
  }
}

/** Lookups are resolved first, then the change is written. */
class LookupsBeforeApply extends View {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    super(parts.redis, parts.resource, { prefix: parts.prefix });
    this.#parts = parts;
  }

  override async apply(chunk: Chunk): Promise<readonly OutboxEntry[]> {
    const wakeups = await Promise.all(
      chunk.wakeups.map(async (wakeup) => ('lookup' in wakeup ? this.#resolve(wakeup) : [wakeup])),
    );
    // What the trip to Redis takes on a busy day: time for the object's own event, in the other view.
    if (chunk.wakeups.some((wakeup) => 'lookup' in wakeup)) await sleep(500);
    return super.apply({ ...chunk, wakeups: wakeups.flat() });
  }

  async #resolve({ controller, lookup, reasons }: LookupWakeup): Promise<Wakeup[]> {
    const view = 'view' in lookup ? this.#parts.viewAt(lookup.view) : undefined;
    return view && 'view' in lookup
      ? (await resolveLookup(view, lookup, unlimitedLookups)).map((key) => ({ controller, key, reasons }))
      : [];
  }
}

/** Wrong views, each without one of the things that keep wakeups and versions true. */
export const mutations: Readonly<Record<string, MakeView>> = {
  'the outbox removed': (parts) => new WithoutOutbox(parts),
  'the version moved outside the script': (parts) => new VersionOutsideScript(parts),
  'index lookups resolved before the apply': (parts) => new LookupsBeforeApply(parts),
};
