import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { resource } from '../../src/core/index.ts';
import { HttpReader, type HttpReaderOptions } from '../../src/function/index.ts';
import { undiciFetch } from '../../src/function/node/index.ts';
import { LoopbackServer } from '../harness/loopback-server.ts';
import { cacheReaderContract, serveViews } from './cache-reader-contract.ts';
import { eventually } from '../harness/eventually.ts';

const CLIENTS: readonly [string, HttpReaderOptions][] = [
  ['HttpReader', {}],
  ["HttpReader, by undici's own client", { fetch: undiciFetch }],
];

for (const [name, options] of CLIENTS) {
  cacheReaderContract(name, async (world) => {
    const { server, location } = await serveViews(world);
    const { syncWaitMs } = world;
    return { reader: new HttpReader(location, { syncWaitMs, ...options }), close: () => server.close() };
  });
}

describe('HttpReader', () => {
  const pods = resource('v1', 'Pod');
  const views = { 'v1/Pod': [{ prefix: 'p' }] };
  const nobody: typeof fetch = () => Promise.reject(new Error('it was asked'));

  it('sends its token by https or on loopback only', async () => {
    const read = (url: string): Promise<unknown> =>
      new HttpReader({ views, url, token: 't' }, { fetch: nobody }).list(pods);
    await expect(read('http://gateway.example.com/cache')).rejects.toThrow('neither https nor on loopback');
    await expect(read('http://127.0.0.1.example.com/cache')).rejects.toThrow('neither https nor on loopback');
    await expect(read('https://gateway.example.com/cache')).rejects.toThrow('it was asked');
    await expect(read('http://localhost:1/cache')).rejects.toThrow('it was asked');
    await expect(read('http://[::1]:1/cache')).rejects.toThrow('it was asked');
  });

  it('says what to do when the trigger names no cache API', async () => {
    await expect(new HttpReader({ views }, { fetch: nobody }).list(pods)).rejects.toThrow('its cache URL');
  });

  it('follows no redirect, and sends nothing when the run is over', async () => {
    let init: RequestInit | undefined;
    const look: typeof fetch = async (_, given) => {
      init = given;
      return Response.json({ metadata: { resourceVersion: '1' }, items: [] });
    };
    const run = new AbortController();
    const location = { views, url: 'https://g/cache', token: 't' };
    await new HttpReader(location, { fetch: look, signal: run.signal }).list(pods);
    expect(init).toMatchObject({ redirect: 'manual', headers: { authorization: 'Bearer t' } });
    run.abort(new Error('over'));
    await expect(new HttpReader(location, { signal: run.signal }).list(pods)).rejects.toThrow('over');
  });

  it.each(CLIENTS)('%s does not follow where it is sent, and ends with its run', async (_, options) => {
    const seen: (string | undefined)[] = [];
    const elsewhere = new LoopbackServer(
      createServer(({ url }, response) => {
        seen.push(url);
        if (url?.startsWith('/cache')) response.writeHead(302, { location: '/elsewhere' }).end();
      }),
    );
    await elsewhere.open();
    const read = (path: string, signal: AbortSignal) =>
      new HttpReader({ views, url: `${elsewhere.url}${path}`, token: 't' }, { ...options, signal }).list(pods);
    await expect(read('/cache', AbortSignal.timeout(60_000))).rejects.toThrow();
    expect(seen).toHaveLength(1);
    // Nobody answers there.
    const run = new AbortController();
    const late = read('/silent', run.signal);
    setTimeout(() => run.abort(new Error('over')), 100);
    await expect(late).rejects.toThrow('over');
    await elsewhere.close();
  });

  const status = (code: number, reason: string): Response =>
    Response.json({ kind: 'Status', code, reason }, { status: code, headers: { 'retry-after': '0' } });

  it.each<[string, () => Response]>([
    ['is checked after a loss', () => status(503, 'ServiceUnavailable')],
    ['is asked too often', () => status(429, 'TooManyRequests')],
  ])('waits while the cache %s, for its time', async (_what, answer) => {
    const location = { views, url: 'https://g/cache', token: 't' };
    let left = 3;
    const later: typeof fetch = async () =>
      (left -= 1) >= 0 ? answer() : Response.json({ metadata: { resourceVersion: '5' }, items: [] });
    await expect(new HttpReader(location, { fetch: later }).list(pods)).resolves.toMatchObject({ version: '5' });
    // A process that has no turn for a second asks once.
    await eventually(async () => {
      let asked = 0;
      const never: typeof fetch = async () => ((asked += 1), answer());
      await expect(new HttpReader(location, { fetch: never, syncWaitMs: 1000 }).list(pods)).rejects.toThrow();
      expect(asked).toBeGreaterThan(1);
    });
  });

  it("does not wait for a gateway that is not there: a proxy's 503", async () => {
    const location = { views, url: 'https://g/cache', token: 't' };
    let asked = 0;
    const proxy: typeof fetch = async () => {
      asked += 1;
      return new Response('<html>', { status: 503, headers: { 'retry-after': '0' } });
    };
    await expect(new HttpReader(location, { fetch: proxy }).list(pods)).rejects.toMatchObject({ code: 503 });
    expect(asked).toBe(1);
  });

  it('begins a list anew that cannot be continued, a few times', async () => {
    const answers = (expiries: number): typeof fetch => {
      let left = expiries;
      return async (url) => {
        const from = new URL(url instanceof Request ? url.url : url).searchParams.get('continue');
        const item = (name: string) => ({ metadata: { name } });
        if (from === null)
          return Response.json({ metadata: { resourceVersion: '5', continue: 'c' }, items: [item('a')] });
        left -= 1;
        if (left >= 0) return Response.json({ kind: 'Status', code: 410, reason: 'Expired' }, { status: 410 });
        return Response.json({ metadata: { resourceVersion: '5' }, items: [item('b')] });
      };
    };
    const location = { views, url: 'https://g/cache', token: 't' };
    const { items } = await new HttpReader(location, { fetch: answers(2) }).list(pods);
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    await expect(new HttpReader(location, { fetch: answers(99) }).list(pods)).rejects.toMatchObject({ code: 410 });
  });
});
