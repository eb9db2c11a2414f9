import { type Clock, formatKind, ownValue } from '../../../core/index.ts';
import type { CacheLocation, CacheScope, ViewLocation } from '../../../contract/index.ts';
import type { View } from '../../informer/cache/view.ts';
import type { CachePositions } from './token.ts';
import type { TokenRun, TriggerTokens } from './trigger-tokens.ts';

export interface CacheAccessOptions {
  readonly views: readonly View[];
  /** The part of the views' kinds that the function may read at most. Default: everything that is cached. */
  readonly scope?: CacheScope;
  /** The cache API's address, and the signer of its tokens; undefined: triggers carry neither. */
  readonly api: { readonly url: string; readonly tokens: TriggerTokens } | undefined;
  /** Returns the Redis user that may read the function's views. Default: triggers name no user. */
  readonly redisUser?: () => string | undefined;
  readonly clock: Clock;
}

/**
 * The cache part of a controller's triggers and reviews: its views, and the cache API's address with a token for it.
 */
export class CacheAccess {
  /** The views that the function may read in Redis. */
  readonly inRedis: readonly ViewLocation[];
  readonly #options: CacheAccessOptions;
  readonly #inRedis: readonly View[];
  readonly #places: Pick<CacheLocation, 'views' | 'encrypted'>;
  /** The scope of the function's tokens. */
  readonly scope: CacheScope;

  constructor(options: CacheAccessOptions) {
    this.#options = options;
    const { scope, views } = options;
    // Encrypted views, and views that hold more than the function may read, are served through the cache API only.
    const [inRedis, behindApi] = partition(views, (view) => !view.objects.encrypted && isWhole(view, scope));
    const encrypted = scopeOf(behindApi, scope);
    this.#inRedis = inRedis;
    this.inRedis = inRedis.map(({ location }) => location);
    this.#places = {
      views: locationsOf(inRedis),
      ...(Object.keys(encrypted).length > 0 ? { encrypted } : {}),
    };
    this.scope = scopeOf(views, scope);
  }

  /**
   * The cache part of a trigger for these runs, which have begun. It includes the positions of the views, because a
   * reader must refuse an older view.
   * @throws UnavailableError as `ViewRecord.position` does: the runs must not go on, since Redis may have lost writes.
   */
  async location(runs: readonly TokenRun[]): Promise<CacheLocation> {
    const positions = new Map<View, number>();
    const read = async (view: View): Promise<void> => {
      const position = await view.record.position();
      if (position !== undefined) positions.set(view, position);
    };
    await Promise.all(this.#options.views.map(read));
    const located = this.#with((tokens) =>
      tokens.sign('levelhook-cache', runs, { scope: this.scope, positions: claimed(positions) }),
    );
    return { ...located, views: locationsOf(this.#inRedis, positions) };
  }

  /**
   * For how long the views may lack a change, in milliseconds: see `Informer.ageMs`. Undefined while this gateway does
   * not know it of each of them.
   */
  get ageMs(): number | undefined {
    const nowMs = this.#options.clock.now();
    let age = 0;
    for (const { record } of this.#options.views) {
      const { lastShownMs } = record;
      if (lastShownMs === undefined) return undefined;
      age = Math.max(age, Math.round(nowMs - lastShownMs));
    }
    return age;
  }

  /** The cache part of reviews that begin now and take no longer than this. */
  locationForReviews(longestMs: number): CacheLocation {
    return this.#with((tokens) => tokens.signUntil(this.#options.clock.now() + longestMs, this.scope));
  }

  #with(sign: (tokens: TriggerTokens) => string): CacheLocation {
    const { api } = this.#options;
    return { ...this.#here(), ...(api ? { url: api.url, token: sign(api.tokens) } : {}) };
  }

  #here(): CacheLocation {
    const { clock, redisUser } = this.#options;
    // A function that may read no view in Redis has no user.
    const user = this.inRedis.length > 0 ? redisUser?.() : undefined;
    return {
      ...this.#places,
      ...(user === undefined ? {} : { redisUser: user }),
      ...(this.inRedis.length > 0 ? { now: Math.round(clock.now()) } : {}),
    };
  }
}

function locationsOf(views: readonly View[], positions?: ReadonlyMap<View, number>): CacheLocation['views'] {
  const kinds = Map.groupBy(views, (view) => formatKind(view.resource));
  const locationOf = (view: View): ViewLocation => {
    const position = positions?.get(view);
    return position === undefined ? view.location : { ...view.location, position };
  };
  return Object.fromEntries([...kinds].map(([kind, each]) => [kind, each.map(locationOf)]));
}

/** The positions in a token. A request carries it in a header, so it names a limited number of views. */
function claimed(positions: ReadonlyMap<View, number>): CachePositions {
  const claims: Record<string, Record<string, number>> = {};
  for (const [{ location, resource }, position] of [...positions].slice(0, MOST_CLAIMED)) {
    (claims[formatKind(resource)] ??= {})[location.namespace ?? ''] = position;
  }
  return claims;
}

const MOST_CLAIMED = 64;

/** The cached namespaces of these views that the function may read. A kind without any is omitted. */
function scopeOf(views: readonly View[], allowed: CacheScope | undefined): CacheScope {
  const kinds = Map.groupBy(views, (view) => formatKind(view.resource));
  const entries = [...kinds].map(([kind, each]): [string, '*' | readonly string[]] => {
    const namespaces = each.flatMap(({ location }) => location.namespace ?? []);
    const cached = namespaces.length < each.length ? ('*' as const) : namespaces;
    return [kind, allowed ? intersection(cached, ownValue(allowed, kind) ?? []) : cached];
  });
  return Object.fromEntries(entries.filter(([, namespaces]) => namespaces.length > 0));
}

/** The scope that both scopes allow. */
export function commonScope(a: CacheScope, b: CacheScope): CacheScope {
  const kinds = Object.entries(a).map(([kind, of]) => [kind, intersection(of, ownValue(b, kind) ?? [])] as const);
  return Object.fromEntries(kinds.filter(([, namespaces]) => namespaces.length > 0));
}

function intersection(a: '*' | readonly string[], b: '*' | readonly string[]): '*' | readonly string[] {
  if (a === '*') return b;
  return b === '*' ? a : a.filter((namespace) => b.includes(namespace));
}

/** Whether all of a view may be read. */
function isWhole({ location, resource }: View, allowed: CacheScope | undefined): boolean {
  if (!allowed) return true;
  const namespaces = ownValue(allowed, formatKind(resource)) ?? [];
  return namespaces === '*' || (location.namespace !== undefined && namespaces.includes(location.namespace));
}

function partition<T>(all: readonly T[], test: (each: T) => boolean): [T[], T[]] {
  return [all.filter(test), all.filter((each) => !test(each))];
}
