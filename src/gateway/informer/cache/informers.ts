import { formatKind, messageOf, type Resource, type Runtime } from '../../../core/index.ts';
import { viewKeys, viewPrefix } from '../../../contract/cache-layout.ts';
import { ObjectCodec } from '../../../contract/node/codec.ts';
import type { KeyRing } from '../../../contract/node/key-ring.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { Term } from './gateway-writer.ts';
import { Informer } from './informer.ts';
import type { CacheListeners, InformerOptions } from './informer-options.ts';
import { removeView } from './remove-view.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';
import { View, type ViewBounds } from './view.ts';
import type { CacheSettings, ViewSettings } from '../../../ground/config/cache-file.ts';
import { isEncrypted, settingsFor, settingsHash } from './view-settings.ts';

export interface InformersOptions {
  readonly client: ApiClient;
  readonly location: Omit<RedisLocation, 'registryKey'>;
  readonly settings: CacheSettings;
  /** See `ObjectCodecOptions`. Without a ring of keys no encrypted view is begun. */
  readonly codec?: { readonly keyRing?: KeyRing | undefined; readonly compressAbove?: number };
  /** Limits on the memory and the time that objects take. Default: no limits. */
  readonly bounds?: ViewBounds;
  readonly writer: InformerOptions['writer'];
  readonly listeners: CacheListeners;
  readonly runtime: Runtime;
}

/** The informers of one kind: one, or one for each cached namespace. */
interface Shared {
  readonly starting: Promise<Informer[]>;
  readonly users: Set<string>;
}

/**
 * The gateway's informers. A kind is watched from when its first user needs it until its last goes, however many there
 * are in between; then its view is removed.
 */
export class Informers {
  readonly #options: InformersOptions;
  readonly #kinds = new Map<string, Shared>();
  readonly #running = new Set<Informer>();
  /** Views that are being removed, by kind: the next ones of that kind have the same keys. */
  readonly #leaving = new Map<string, Promise<void>>();

  constructor(options: InformersOptions) {
    this.#options = options;
  }

  /** The cached part of each kind. */
  get settings(): CacheSettings {
    return this.#options.settings;
  }

  /** Whether there are keys for the views that must be encrypted. */
  get canEncrypt(): boolean {
    return this.#options.codec?.keyRing !== undefined;
  }

  all(): Informer[] {
    return [...this.#running];
  }

  /**
   * Takes all views when this gateway begins to lead, and removes the views of earlier settings. Resolves when that is
   * done or the term has ended. Never rejects.
   */
  async lead(term: Term): Promise<void> {
    const { logger } = this.#options.runtime;
    await Promise.all(this.all().map((informer) => informer.lead(term)));
    const kinds = Map.groupBy(this.all(), ({ view }) => servedAs(view.resource));
    for (const informers of kinds.values()) {
      const [first] = informers;
      if (term.signal.aborted || !first) return;
      await this.#removeOthers(first.view.resource, prefixesOf(informers)).catch((error: unknown) => {
        logger.warn(
          { resource: first.name, error: messageOf(error) },
          'views of earlier settings could not be removed',
        );
      });
    }
  }

  /** This gateway leads no longer. Resolves when it writes nothing to a view any more. */
  async follow(): Promise<void> {
    await Promise.all(this.all().map((informer) => informer.follow()));
  }

  /** Whether the kind has informers. */
  has(resource: Resource): boolean {
    return this.#kinds.has(servedAs(resource));
  }

  /** The informers of this kind, for `user` until it releases them. */
  ensure(resource: Resource, user: string): Promise<Informer[]> {
    const kind = servedAs(resource);
    let shared = this.#kinds.get(kind);
    if (!shared) {
      const starting = this.#start(resource);
      shared = { starting, users: new Set() };
      this.#kinds.set(kind, shared);
      // The next caller tries again from the start.
      starting.catch(() => {
        if (this.#kinds.get(kind)?.starting === starting) this.#kinds.delete(kind);
      });
    }
    shared.users.add(user);
    return shared.starting;
  }

  /** `user` needs none of its kinds any more, but for those in `kept` (see `servedAs`). */
  async release(user: string, kept: ReadonlySet<string> = new Set()): Promise<void> {
    for (const [kind, { starting, users }] of this.#kinds) {
      if (kept.has(kind) || !users.delete(user) || users.size > 0) continue;
      this.#kinds.delete(kind);
      const leaving = this.#stopAll(starting).finally(() => {
        if (this.#leaving.get(kind) === leaving) this.#leaving.delete(kind);
      });
      this.#leaving.set(kind, leaving);
      await leaving;
    }
  }

  async #stopAll(starting: Promise<Informer[]>): Promise<void> {
    const { metrics } = this.#options.runtime;
    for (const informer of await starting.catch(() => [])) {
      await informer.stop();
      this.#running.delete(informer);
      // A gateway that follows leaves it, because the gateway that leads may still need it.
      await this.#removeView(informer.view.location.prefix);
      await metrics.forget({ resource: informer.name });
      await metrics.forget({ name: informer.name });
      await metrics.forget({ resource: formatKind(informer.view.resource) });
    }
  }

  /** The informers that have one of these users. */
  neededBy(isAsked: (user: string) => boolean): Informer[] {
    const asked = [...this.#kinds].filter(([, { users }]) => [...users].some(isAsked)).map(([kind]) => kind);
    return this.all().filter(({ view }) => asked.includes(servedAs(view.resource)));
  }

  /** Writes which views there are: Redis may have lost it. Call it only while this gateway leads. */
  async record(): Promise<void> {
    const { redis, viewsKey } = this.#options.location;
    const prefixes = prefixesOf(this.all());
    if (prefixes.size > 0) await redis.sadd(viewsKey, ...prefixes);
  }

  async stop(): Promise<void> {
    await Promise.all(this.all().map((informer) => informer.stop()));
  }

  async #start(resource: Resource): Promise<Informer[]> {
    const { settings } = this.#options;
    const kind = formatKind(resource);
    await this.#leaving.get(servedAs(resource));
    const own = settingsFor(settings, kind);
    const namespaces = resource.namespaced ? own.namespaces : undefined;
    const informers = (namespaces ?? [undefined]).map((namespace) => this.#create(resource, own, namespace));
    if (this.#options.writer.term) await this.#removeOthers(resource, prefixesOf(informers));
    for (const informer of informers) this.#running.add(informer);
    try {
      await Promise.all(informers.map((informer) => informer.start()));
    } catch (error) {
      // The next caller makes new informers. If these stayed, each view would have two.
      for (const informer of informers) this.#running.delete(informer);
      await Promise.all(informers.map((informer) => informer.stop()));
      throw error;
    }
    return informers;
  }

  #create(resource: Resource, settings: ViewSettings, namespace: string | undefined): Informer {
    const { client, codec: { compressAbove, keyRing: ring } = {}, writer, listeners, runtime } = this.#options;
    const { redis, keyPrefix, clusterId } = this.#options.location;
    const kind = formatKind(resource);
    const hash = settingsHash(settings, resource, namespace);
    const prefix = viewPrefix({ keyPrefix, clusterId, resource, settings: hash });
    const keyRing = isEncrypted(kind, settings) ? ring : undefined;
    // `Controllers` has refused them before this.
    if (isEncrypted(kind, settings) && !keyRing) throw new Error(`there is no key to encrypt ${kind} with`);
    const codec = new ObjectCodec({ prefix, keyRing, compressAbove });
    const location = { prefix, ...(namespace === undefined ? {} : { namespace }) };
    const viewAt = (wanted: string): View | undefined =>
      this.all().find(({ view }) => view.location.prefix === wanted)?.view;
    const view = new View(redis, resource, location, codec, this.#options.bounds);
    return new Informer({ client, resource, settings, view, viewAt, writer, listeners, runtime });
  }

  /** Views of this kind under other settings, left by an earlier configuration. */
  async #removeOthers(resource: Resource, wanted: ReadonlySet<string>): Promise<void> {
    const { redis, viewsKey, keyPrefix, clusterId } = this.#options.location;
    const ofKind = viewPrefix({ keyPrefix, clusterId, resource, settings: '' }).slice(0, -1);
    // An informer that is still used, of a definition that has come back in another form, leaves with its last user.
    const used = new Set(this.all().map(({ view }) => view.location.prefix));
    for (const prefix of await redis.smembers(viewsKey)) {
      if (prefix.startsWith(ofKind) && !wanted.has(prefix) && !used.has(prefix)) await this.#removeView(prefix);
    }
    await redis.sadd(viewsKey, ...wanted);
  }

  /** Removes views of earlier gateways that no controller of this gateway needs. @returns their prefixes. */
  async removeUnused(): Promise<string[]> {
    const used = new Set(this.all().map(({ view }) => view.location.prefix));
    const { redis, viewsKey } = this.#options.location;
    const unused = (await redis.smembers(viewsKey)).filter((prefix) => !used.has(prefix));
    const removed: string[] = [];
    for (const prefix of unused) if (await this.#removeView(prefix)) removed.push(prefix);
    return removed;
  }

  /** @returns false when this gateway uses the view again, or another gateway leads and fills it. */
  async #removeView(prefix: string): Promise<boolean> {
    const { location, writer } = this.#options;
    const { redis, viewsKey } = location;
    const before = (await redis.hget(viewKeys(prefix).view, 'writerId')) ?? '';
    // Asked after the read: a gateway that leads later writes another ID.
    if (!writer.term || this.all().some(({ view }) => view.location.prefix === prefix)) return false;
    if (!(await removeView(redis, prefix, before))) return false;
    await redis.srem(viewsKey, prefix);
    return true;
  }
}

function prefixesOf(informers: readonly Informer[]): ReadonlySet<string> {
  return new Set(informers.map(({ view }) => view.location.prefix));
}

/** A kind as it is served: under another plural or in another scope it is watched and kept apart. */
export function servedAs(resource: Resource): string {
  return `${formatKind(resource)} ${resource.plural} ${resource.namespaced ? 'namespaced' : 'cluster-scoped'}`;
}
