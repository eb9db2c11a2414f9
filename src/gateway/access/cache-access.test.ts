import { describe, expect, it } from 'vitest';
import { resource } from '../../core/index.ts';
import type { CacheScope } from '../../contract/index.ts';
import type { View } from '../cache/view.ts';
import { CacheAccess } from './cache-access.ts';

const viewOf = (kind: string, namespace?: string): View =>
  ({
    resource: resource('v1', kind),
    location: { prefix: `${kind}-${namespace}`, ...(namespace === undefined ? {} : { namespace }) },
  }) as View;

function world(views: readonly View[]) {
  const signed: { scope: CacheScope; expiresAtMs: number }[] = [];
  const lost = new Set<string>();
  let now = 0;
  const clock = { now: () => now, wallNow: () => now, sleep: async () => {} };
  const keys = {
    sign: async (_: string, scope: CacheScope, expiresAtMs: number) => {
      signed.push({ scope, expiresAtMs });
      return `token-${signed.length}`;
    },
    knows: async (token: string) => !lost.has(token),
  };
  const options = { controller: 'x', views, clock, lifetimeMs: 600_000, timeoutMs: 15_000 };
  return {
    signed,
    lost,
    access: new CacheAccess({ ...options, api: { url: 'https://g/cache', keys } }),
    without: new CacheAccess({ ...options, api: undefined }),
    at: (ms: number) => (now = ms),
  };
}

describe('what a trigger says of the cache', () => {
  it('without an address, the views and the time alone', async () => {
    const { without, at } = world([viewOf('Pod')]);
    at(1234.5);
    expect(await without.location()).toEqual({ views: { 'v1/Pod': [{ prefix: 'Pod-undefined' }] }, now: 1235 });
  });

  it('the Redis user as it is at the moment', async () => {
    const users: string[] = [];
    const clock = { now: () => 0, wallNow: () => 0, sleep: async () => {} };
    const rest = { views: [viewOf('Pod')], api: undefined, clock, lifetimeMs: 1, timeoutMs: 1 };
    const options = { controller: 'x', redisUser: () => users[0], ...rest };
    const access = new CacheAccess(options);
    const views = { 'v1/Pod': [{ prefix: 'Pod-undefined' }] };
    expect(await access.location()).toEqual({ views, now: 0 });
    users.push('reader:x');
    expect(await access.location()).toEqual({ views, redisUser: 'reader:x', now: 0 });
    // Nobody where there is nothing for it to read.
    const part = new CacheAccess({ ...options, scope: { 'v1/Pod': ['a'] } });
    expect(await part.location()).toEqual({ views: {}, encrypted: { 'v1/Pod': ['a'] } });
  });

  it('a token of what is cached for the controller, and nothing else', async () => {
    const { access, signed } = world([viewOf('Pod'), viewOf('ConfigMap', 'a'), viewOf('ConfigMap', 'b')]);
    expect(await access.location()).toMatchObject({ url: 'https://g/cache', token: 'token-1' });
    expect(signed[0]?.scope).toEqual({ 'v1/Pod': '*', 'v1/ConfigMap': ['a', 'b'] });
  });

  it('the same token for a while, and always one that outlives the run', async () => {
    const { access, signed, at } = world([viewOf('Pod')]);
    for (let ms = 0; ms < 3_600_000; ms += 10_000) {
      at(ms);
      await access.location();
      const { expiresAtMs = 0 } = signed.at(-1) ?? {};
      expect(expiresAtMs - ms).toBeGreaterThanOrEqual(15_000 + 300_000);
    }
    expect(signed.length).toBeLessThan(15);
  });

  it('another token once Redis has lost the key of the one before', async () => {
    const { access, lost } = world([viewOf('Pod')]);
    expect(await access.location()).toMatchObject({ token: 'token-1' });
    expect(await access.location()).toMatchObject({ token: 'token-1' });
    lost.add('token-1');
    expect(await access.location()).toMatchObject({ token: 'token-2' });
    expect(await access.location()).toMatchObject({ token: 'token-2' });
  });
});
