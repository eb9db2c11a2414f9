import { describe, expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { CacheAccess } from './cache-access.ts';
import type { TokenClaims } from './token.ts';
import { TriggerTokens } from './trigger-tokens.ts';

const viewOf = (kind: string, namespace?: string, position?: number): View =>
  ({
    record: { position: async () => position },
    objects: { encrypted: false },
    resource: resource('v1', kind),
    location: { prefix: `${kind}-${namespace}`, ...(namespace === undefined ? {} : { namespace }) },
  }) as unknown as View;

const RUN = { key: 'a/b', run: 7, incarnation: 'i', deadlineMs: 15_000 };

function world(views: readonly View[], goOn = false) {
  const signed: { audience: string; claims: Omit<TokenClaims, 'expiresAt'>; expiresAtMs: number }[] = [];
  let now = 0;
  const clock = { now: () => now, wallNow: () => now, sleep: async () => {} };
  const keys = {
    sign: (audience: string, claims: Omit<TokenClaims, 'expiresAt'>, expiresAtMs: number) => {
      signed.push({ audience, claims, expiresAtMs });
      return `token-${signed.length}`;
    },
  };
  const tokens = new TriggerTokens({ controller: 'x', declaration: 'd', keys, goOn, clock });
  return {
    signed,
    tokens,
    access: new CacheAccess({ views, clock, api: { url: 'https://g/cache', tokens } }),
    without: new CacheAccess({ views, clock, api: undefined }),
    at: (ms: number) => (now = ms),
  };
}

describe('what a trigger says of the cache', () => {
  it('without an address, the views and the time alone', async () => {
    const { without, at } = world([viewOf('Pod'), viewOf('ConfigMap', 'a', 17)]);
    at(1234.5);
    // A view that has never been complete has no position.
    const configMaps = [{ prefix: 'ConfigMap-a', namespace: 'a', position: 17 }];
    const views = { 'v1/Pod': [{ prefix: 'Pod-undefined' }], 'v1/ConfigMap': configMaps };
    expect(await without.location([RUN])).toEqual({ views, now: 1235 });
  });

  it('the Redis user as it is at the moment', async () => {
    const users: string[] = [];
    const clock = { now: () => 0, wallNow: () => 0, sleep: async () => {} };
    const options = { views: [viewOf('Pod')], api: undefined, clock, redisUser: () => users[0] };
    const access = new CacheAccess(options);
    const views = { 'v1/Pod': [{ prefix: 'Pod-undefined' }] };
    expect(await access.location([RUN])).toEqual({ views, now: 0 });
    users.push('reader:x');
    expect(await access.location([RUN])).toEqual({ views, redisUser: 'reader:x', now: 0 });
    // No user where the function may read nothing in Redis.
    const part = new CacheAccess({ ...options, scope: { 'v1/Pod': ['a'] } });
    expect(await part.location([RUN])).toEqual({ views: {}, encrypted: { 'v1/Pod': ['a'] } });
  });

  it('a token of what is cached for the controller, for the runs of the trigger, and nothing else', async () => {
    const { access, signed } = world([
      viewOf('Pod', undefined, 5),
      viewOf('ConfigMap', 'a', 6),
      viewOf('ConfigMap', 'b'),
    ]);
    expect(await access.location([RUN, { ...RUN, key: 'a/c', run: 8 }])).toMatchObject({
      url: 'https://g/cache',
      token: 'token-1',
    });
    const scope = { 'v1/Pod': '*', 'v1/ConfigMap': ['a', 'b'] };
    const runs = { incarnation: 'i', keys: { 7: 'a/b', 8: 'a/c' } };
    const positions = { 'v1/Pod': { '': 5 }, 'v1/ConfigMap': { a: 6 } };
    const claims = { controller: 'x', declaration: 'd', scope, positions, runs };
    expect(signed).toEqual([{ audience: 'levelhook-cache', claims, expiresAtMs: 17_000 }]);
  });

  it('a token that is valid for a day when its runs may go on, and that of a callback for a year', async () => {
    const { access, signed, tokens, at } = world([viewOf('Pod')], true);
    at(5000);
    await access.location([RUN]);
    tokens.sign('levelhook-callback', [RUN]);
    expect(signed.map(({ expiresAtMs }) => expiresAtMs)).toEqual([86_405_000, 366 * 86_400_000 + 5000]);
  });

  it('a token for reviews that names no run', () => {
    const { access, signed } = world([viewOf('Pod')]);
    expect(access.locationForReviews(30_000)).toMatchObject({ token: 'token-1' });
    expect(signed[0]).toMatchObject({ claims: { declaration: 'd' }, expiresAtMs: 32_000 });
    expect(signed[0]?.claims.runs).toBeUndefined();
  });
});
