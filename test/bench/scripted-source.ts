import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { configMapOf } from './config-maps.ts';

/**
 * An apiserver that does one thing as fast as it can: it streams `count` ConfigMaps as the initial events of a watch,
 * and on `POST /events?count=…` that many changes. A program of its own, so that it shares no thread with what is
 * measured.
 */
const count = Number(process.argv[2] ?? 100_000);
const first = count + 1000;
/**
 * The version of the last change: change number `n` has the version `first + n`, and is of object `n`, round and round.
 */
let version = first;
let wakeAll = (): void => {};
let changed = new Promise<void>((resolve) => (wakeAll = resolve));

let lease: object | undefined;

const lineOf = (type: string, at: number, resourceVersion: number): string =>
  `${JSON.stringify({ type, object: { apiVersion: 'v1', kind: 'ConfigMap', ...configMapOf(at, resourceVersion) } })}\n`;
// Made before anybody measures.
const initial = Array.from({ length: count }, (_, at) => Buffer.from(lineOf('ADDED', at, at + 1000)));

async function write(response: ServerResponse, line: Buffer | string): Promise<void> {
  if (response.destroyed) return;
  if (!response.write(line)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
}

async function send(response: ServerResponse, lines: Iterable<Buffer | string>): Promise<void> {
  for (const line of lines) await write(response, line);
}

const bookmark = (annotations = {}): string =>
  `${JSON.stringify({
    type: 'BOOKMARK',
    object: { kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: String(version), annotations } },
  })}\n`;

const server = createServer((request, response) => {
  const url = new URL(request.url ?? '', 'http://scripted');
  const json = (body: object): void =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (url.pathname === '/events') {
    const wanted = Number(url.searchParams.get('count'));
    version += wanted;
    wakeAll();
    changed = new Promise((resolve) => (wakeAll = resolve));
    json({ version: String(version) });
    return;
  }
  // The gateway says in a Lease that its runs may be in flight, and waits for those of a Lease that it does not know.
  if (url.pathname.startsWith('/apis/coordination.k8s.io/')) {
    if (request.method !== 'PUT') {
      const found = lease;
      if (request.method === 'DELETE') lease = undefined;
      return found === undefined ? void response.writeHead(404).end() : json(found);
    }
    let body = '';
    request.on('data', (part) => (body += String(part)));
    request.on('end', () => json((lease = { ...(JSON.parse(body) as object) })));
    return;
  }
  if (url.pathname === '/api/v1') {
    const verbs = ['list', 'watch'];
    return json({
      groupVersion: 'v1',
      resources: [
        { name: 'configmaps', kind: 'ConfigMap', namespaced: true, verbs },
        { name: 'replicationcontrollers', kind: 'ReplicationController', namespaced: true, verbs },
      ],
    });
  }
  const isBig = url.pathname.endsWith('/configmaps');
  if (url.searchParams.get('watch') !== 'true') {
    const limit = Number(url.searchParams.get('limit') ?? count);
    const from = Number(url.searchParams.get('continue') ?? '0');
    const end = isBig ? Math.min(count, from + limit) : 0;
    const items: object[] = [];
    for (let at = from; at < end; at += 1) items.push(configMapOf(at, at + 1000));
    const rest = end < count && isBig ? { continue: String(end) } : {};
    return json({ metadata: { resourceVersion: String(version), ...rest }, items });
  }
  response.writeHead(200, { 'content-type': 'application/json' });
  response.flushHeaders();
  void (async () => {
    let sent = Number(url.searchParams.get('resourceVersion') || '0');
    if (url.searchParams.get('sendInitialEvents') === 'true') {
      sent = version;
      if (isBig) await send(response, initial);
      await write(response, bookmark({ 'k8s.io/initial-events-end': 'true' }));
    }
    if (!isBig) return;
    while (!response.destroyed) {
      if (sent === version) await Promise.race([changed, once(response, 'close')]);
      else {
        sent += 1;
        await write(response, lineOf('MODIFIED', (sent - first) % count, sent));
      }
    }
  })();
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${port}` })}\n`);
});
