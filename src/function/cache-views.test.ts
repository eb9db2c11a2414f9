import { describe, expect, it } from 'vitest';
import { resource } from '../core/index.ts';
import type { CacheLocation } from '../contract/index.ts';
import { HttpReader } from './http-reader.ts';
import { isCached, namespacesOf, viewsOf } from './cache-views.ts';

const secrets = resource('v1', 'Secret');
const pods = resource('v1', 'Pod');
const views = {
  'v1/Pod': [
    { prefix: 'p', namespace: 'b' },
    { prefix: 'q', namespace: 'a' },
  ],
};
const location = (encrypted: '*' | readonly string[]): CacheLocation => ({
  views,
  encrypted: { 'v1/Secret': encrypted },
});

describe('a kind that is encrypted', () => {
  it('has namespaces like any other, and no views', () => {
    expect(namespacesOf(location('*'), secrets, undefined)).toEqual([undefined]);
    expect(namespacesOf(location('*'), secrets, 'x')).toEqual([undefined]);
    expect(namespacesOf(location(['b', 'a']), secrets, undefined)).toEqual(['a', 'b']);
    expect(namespacesOf(location(['b', 'a']), secrets, 'b')).toEqual(['b']);
    expect(namespacesOf(location(['b', 'a']), secrets, 'x')).toEqual([]);
    expect(namespacesOf(location('*'), pods, undefined)).toEqual(['a', 'b']);
    expect(() => viewsOf(location('*'), secrets, undefined)).toThrow(TypeError);
    expect(() => viewsOf(location('*'), secrets, undefined)).toThrow('v1/Secret is encrypted in Redis');
    expect([isCached(location('*'), secrets), isCached({ views }, secrets), isCached({ views }, pods)]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it('is listed over HTTP where it is cached, and nowhere else', async () => {
    const asked: string[] = [];
    const look: typeof fetch = async (url) => {
      asked.push(new URL(url instanceof Request ? url.url : url).pathname);
      return Response.json({ metadata: { resourceVersion: '7' }, items: [] });
    };
    const reader = (encrypted: '*' | readonly string[]): HttpReader =>
      new HttpReader({ ...location(encrypted), url: 'https://g/cache', token: 't' }, { fetch: look });
    await reader('*').list(secrets);
    await reader(['b', 'a']).list(secrets);
    await reader(['b', 'a']).list(secrets, { namespace: 'b' });
    expect(await reader(['b', 'a']).list(secrets, { namespace: 'x' })).toEqual({ items: [], version: '0' });
    expect(await reader(['b']).get(secrets, { namespace: 'x', name: 'n' })).toBeUndefined();
    expect(asked).toEqual([
      '/cache/api/v1/secrets',
      '/cache/api/v1/namespaces/a/secrets',
      '/cache/api/v1/namespaces/b/secrets',
      '/cache/api/v1/namespaces/b/secrets',
    ]);
    await expect(new HttpReader({ views }, { fetch: look }).list(secrets)).rejects.toThrow('is not cached for this');
  });

  it('has nobody sent to Redis when the trigger names no cache API', async () => {
    const message = await new HttpReader(location('*')).list(secrets).catch(String);
    expect(message).toContain('its cache URL');
    expect(message).not.toContain('redisCache');
  });

  it('is not shown in an error when its answer is not JSON', async () => {
    const broken: typeof fetch = async () => new Response('{"data": aHVudGVyMg}');
    const reader = new HttpReader({ ...location('*'), url: 'https://g/cache', token: 't' }, { fetch: broken });
    const message = await reader.get(secrets, { namespace: 'a', name: 'n' }).catch(String);
    expect(message).toBe('Error: the answer to /api/v1/namespaces/a/secrets/n is not JSON');
  });
});
