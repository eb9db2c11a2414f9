import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LambdaConnections } from './lambda-connections.ts';

let server: Server;
let url: string;
let connections: number;
let bodies: string[];
let nowMs: number;

beforeEach(async () => {
  connections = 0;
  bodies = [];
  nowMs = 1_000_000;
  server = createServer((incoming, outgoing) => {
    let body = '';
    incoming.on('data', (chunk: Buffer) => (body += chunk.toString()));
    incoming.on('end', () => {
      bodies.push(`${incoming.method} ${body}`);
      if (incoming.url === '/hangs') return;
      outgoing.writeHead(incoming.url === '/moved' ? 302 : 200, { location: '/', 'retry-after': '7' }).end('answer');
    });
  });
  server.on('connection', () => (connections += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const clock = { wallNow: () => nowMs };
const { signal } = new AbortController();

it('keeps a connection from request to request, and closes it after a pause', async () => {
  const kept = new LambdaConnections(clock);
  const fetch = kept.fetchTrusting();
  const invoke = async (): Promise<void> => {
    kept.begin();
    for (let at = 0; at < 2; at += 1) await (await fetch(url, { headers: {}, signal })).text();
    kept.end();
  };
  await invoke();
  nowMs += 3000;
  await invoke();
  expect(connections).toBe(1);
  nowMs += 60_000;
  await invoke();
  expect(connections).toBe(2);
});

it('closes nothing while another request is handled', async () => {
  const kept = new LambdaConnections(clock);
  const fetch = kept.fetchTrusting();
  kept.begin();
  const hanging = fetch(`${url}/hangs`, { headers: {}, signal });
  hanging.catch(() => {});
  while (bodies.length === 0) await (await fetch(url, { headers: {}, signal })).text();
  nowMs += 60_000;
  kept.begin();
  await (await fetch(url, { headers: {}, signal })).text();
  expect(await Promise.race([hanging, Promise.resolve('still open')])).toBe('still open');
});

it('is a fetch: method, body, status, headers, abort, and no redirect', async () => {
  const fetch = new LambdaConnections(clock).fetchTrusting();
  const init = { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'äöü', signal };
  const answer = await fetch(url, init);
  expect([answer.ok, answer.status, answer.headers.get('retry-after'), await answer.text()]).toEqual([
    true,
    200,
    '7',
    'answer',
  ]);
  expect(bodies).toEqual(['POST äöü']);
  const moved = await fetch(`${url}/moved`, { headers: {}, signal });
  expect([moved.ok, moved.status]).toEqual([false, 302]);
  const abort = new AbortController();
  const hanging = fetch(`${url}/hangs`, { headers: {}, signal: abort.signal });
  abort.abort();
  await expect(hanging).rejects.toThrow(/abort/);
});
