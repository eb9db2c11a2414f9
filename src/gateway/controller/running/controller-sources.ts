import { formatKind, namespaceOfTenant, ownValue, type Resource } from '../../../core/index.ts';
import { KEPT_OUT_INDEX, LEFT_OUT_INDEX } from '../../../contract/cache-layout.ts';
import type { UserIndexes } from '../../informer/cache/backfill.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { indexOfMap } from '../handlers/mapper.ts';
import { checkScopes } from '../handlers/check-sources.ts';
import { PAUSED_INDEX } from '../handlers/paused.ts';
import { type ControllerSource, informersOf, namespacesNamed } from './controller-source.ts';
import type { ControllerSpec } from './controller-spec.ts';
import type { EventSources } from './event-sources.ts';

/** A view that is this far behind the server, in milliseconds, is worth a person's attention. */
export const BEHIND_MS = 5000;

type SourcesSpec = Pick<ControllerSpec, 'id' | 'tenant' | 'description' | 'scope'>;

/**
 * The kinds of one controller, with their informers. It asks the informers for events and indexes, and says how far
 * they are.
 */
export class ControllerSources {
  /** Every kind that the description names, the kind of `for` first, and then the kinds that keys have named. */
  readonly all: readonly ControllerSource[];
  readonly #spec: SourcesSpec;

  constructor(spec: SourcesSpec, all: readonly ControllerSource[]) {
    this.#spec = spec;
    this.all = all;
  }

  /** The informers of all kinds. */
  get informers(): readonly Informer[] {
    return informersOf(this.all);
  }

  /**
   * The informers that runs wait for: of all kinds that the description names, and of other kinds once they are
   * complete.
   */
  get needed(): readonly Informer[] {
    return this.all.flatMap(({ informers, isRelated }) =>
      isRelated ? informers.filter(({ synced }) => synced) : informers,
    );
  }

  /** The kinds that the description names, whose age the webhooks may bound. */
  get declaredKinds(): readonly string[] {
    return this.declared.map(({ resource }) => formatKind(resource));
  }

  /** The kinds that keys have named, as far as their views are complete. */
  get completeRelated(): readonly ControllerSource[] {
    return this.all.filter(({ isRelated, informers }) => isRelated && informers.every(({ synced }) => synced));
  }

  /** Whether the views of all kinds that the description names are complete. */
  get isComplete(): boolean {
    return informersOf(this.declared).every(({ synced }) => synced);
  }

  /** Whether an event has shown that a kind has another scope by now, so that the controller has to start anew. */
  get outdated(): boolean {
    return this.informers.some((informer) => informer.outdated);
  }

  /** The right that the gateway lacks to fill or follow a needed view; undefined when it lacks none. */
  get refusal(): string | undefined {
    return this.needed.find((informer) => informer.refusal !== undefined)?.refusal;
  }

  /**
   * How far its cache is behind the server; undefined: no more than is usual. Only the gateway that leads has read what
   * the cache lacks.
   */
  get behind(): string | undefined {
    const late = this.needed.filter(({ unappliedMs }) => unappliedMs > BEHIND_MS);
    if (late.length === 0) return undefined;
    const seconds = Math.round(Math.max(...late.map(({ unappliedMs }) => unappliedMs)) / 1000);
    return `its cache is ${seconds} s behind the server: ${late.map(({ name }) => name).join(', ')}`;
  }

  /** The kinds that the description names. */
  get declared(): readonly ControllerSource[] {
    return this.all.filter(({ isRelated }) => !isRelated);
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await Promise.all(informersOf(this.declared).map((informer) => informer.waitForSync(signal)));
  }

  /**
   * From now on the informers' events wake the controller's keys; informers that were not needed before begin.
   * @param events each of them gets all events.
   * @param before of the controller that is being replaced, whose webhooks still get reviews.
   * @throws UserError for namespaces of a kind that has none.
   */
  async addHandlers(
    events: readonly EventSources[],
    webhooks: readonly { readonly resource: Resource }[],
    before?: ControllerSources,
  ): Promise<void> {
    const { description, id } = this.#spec;
    checkScopes(
      description,
      [...this.all, ...webhooks].map(({ resource }) => resource),
    );
    const reviewed = before ? [this, before] : [this];
    const registered: Promise<void>[] = [];
    for (const { resource, informers } of this.all) {
      const kind = formatKind(resource);
      const ageLimitMs = Math.min(...reviewed.map((each) => each.#ageLimitMs(kind)));
      for (const informer of informers) {
        informer.setAgeLimit(id, ageLimitMs);
        informer.setIndexes(id, this.#indexesOf(kind, informer.view.objects.encrypted));
        const handlers = events.flatMap((each) => each.handlersFor(resource));
        registered.push(informer.setHandlers(id, handlers));
      }
    }
    await Promise.all(this.informers.map((informer) => informer.begin()));
    await Promise.all(registered);
  }

  /** How old the views of a kind may be for its webhooks, in milliseconds; Infinity: of any age. */
  #ageLimitMs(kind: string): number {
    if (!this.declaredKinds.includes(kind)) return Infinity;
    const { webhooks = [] } = this.#spec.description;
    return Math.min(...webhooks.map((each) => ('cache' in each ? each.cache.maxAgeSeconds * 1000 : Infinity)));
  }

  /** Indexes that the function declares, or that finding the referrers of a watched object needs. */
  #indexesOf(kind: string, isEncrypted: boolean): UserIndexes {
    const { description, scope, tenant } = this.#spec;
    const declared = description.indexes.filter((each) => formatKind(each) === kind).map(({ index }) => index);
    const allowed = scope === undefined ? '*' : (ownValue(scope, kind) ?? []);
    const own = {
      tenant: tenant && namespaceOfTenant(tenant),
      namespaces: allowed === '*' ? undefined : allowed,
      observed: (description.observes ?? []).filter((each) => formatKind(each) === kind).map(({ field }) => field),
    };
    if (kind !== formatKind(description.for)) return { specs: declared, ...own };
    // The entries of an index by selector would show parts of encrypted objects. Without it each object is read.
    const isAllowed = (index: string): boolean => !isEncrypted || !index.startsWith('selector:');
    const referrers = description.watches.flatMap(({ map }) => indexOfMap(map) ?? []).filter(isAllowed);
    return { specs: [...declared, ...referrers], ...own, needed: [PAUSED_INDEX] };
  }

  /**
   * How many objects of the kinds, in the namespaces that the description names, are kept out of the cache, and how
   * many of them only for want of memory.
   */
  async keptOut(): Promise<{ readonly all: number; readonly leftOut: number }> {
    const [all, leftOut] = await Promise.all([this.#marked(KEPT_OUT_INDEX), this.#marked(LEFT_OUT_INDEX)]);
    return { all, leftOut };
  }

  async #marked(index: string): Promise<number> {
    const { for: reconciled, owns, watches, reads } = this.#spec.description;
    const declared = [reconciled, ...owns, ...watches, ...reads];
    const counts = await Promise.all(
      this.all.flatMap(({ resource, informers }) => {
        const named = namespacesNamed(declared, formatKind(resource));
        return informers.map(({ view }) => view.indexer.keptOutCount(named, index));
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }
}
