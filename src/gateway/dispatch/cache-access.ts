import { type Clock, formatKind } from '../../core/index.ts';
import type { CacheLocation, CacheScope } from '../../contract/index.ts';
import type { View } from '../cache/view.ts';
import type { TokenKeys } from './token-keys.ts';

export interface CacheAccessOptions {
  readonly controller: string;
  readonly views: readonly View[];
  /** The cache API's address, and what signs its tokens; undefined: triggers carry neither. */
  readonly api: { readonly url: string; readonly keys: Pick<TokenKeys, 'sign'> } | undefined;
  /** As whom a function may read the views in Redis. Default: triggers name nobody. */
  readonly redisUser?: () => string | undefined;
  readonly clock: Clock;
  /** How long a token is valid beyond the longest run. */
  readonly lifetimeMs: number;
  /** The longest time of a run. */
  readonly timeoutMs: number;
}

/**
 * What a controller's triggers say of the cache: its views, and the cache API's address with a token for them. A token is
 * used for several triggers, and is valid until after the deadline of each of them.
 */
export class CacheAccess {
  readonly #options: CacheAccessOptions;
  readonly #places: Pick<CacheLocation, 'views' | 'sealed'>;
  readonly #scope: CacheScope;
  #token: { readonly text: string; readonly expiresAtMs: number } | undefined;

  constructor(options: CacheAccessOptions) {
    this.#options = options;
    const sealed = scopeOf(options.views.filter((view) => view.sealed));
    this.#places = {
      // What is encrypted nobody can read in Redis but the gateway.
      views: locationsOf(options.views.filter((view) => !view.sealed)),
      ...(Object.keys(sealed).length > 0 ? { sealed } : {}),
    };
    this.#scope = scopeOf(options.views);
  }

  async location(): Promise<CacheLocation> {
    const { api, redisUser } = this.#options;
    const user = redisUser?.();
    const places = user === undefined ? this.#places : { ...this.#places, redisUser: user };
    if (!api) return places;
    return { ...places, url: api.url, token: await this.#currentToken(api.keys) };
  }

  async #currentToken(keys: Pick<TokenKeys, 'sign'>): Promise<string> {
    const { clock, controller, lifetimeMs, timeoutMs } = this.#options;
    const now = clock.now();
    // Half of it may be used up: the other half is for clocks that differ.
    const neededUntil = now + timeoutMs + lifetimeMs / 2;
    if (!this.#token || this.#token.expiresAtMs < neededUntil) {
      const expiresAtMs = now + timeoutMs + lifetimeMs;
      this.#token = { text: await keys.sign(controller, this.#scope, expiresAtMs), expiresAtMs };
    }
    return this.#token.text;
  }
}

function locationsOf(views: readonly View[]): CacheLocation['views'] {
  const kinds = Map.groupBy(views, (view) => formatKind(view.resource));
  return Object.fromEntries([...kinds].map(([kind, each]) => [kind, each.map(({ location }) => location)]));
}

/** What the gateway caches for this controller, and nothing else. */
function scopeOf(views: readonly View[]): CacheScope {
  const kinds = Map.groupBy(views, (view) => formatKind(view.resource));
  return Object.fromEntries(
    [...kinds].map(([kind, each]) => {
      const namespaces = each.flatMap(({ location }) => location.namespace ?? []);
      return [kind, namespaces.length < each.length ? ('*' as const) : namespaces];
    }),
  );
}
