import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { KubeConfig, RequestContext } from '@kubernetes/client-node';
import { expect, it } from 'vitest';
import { kubeConfigTransport, sharedConnections } from './client-node-transport.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

it('keeps its connections until the server, a certificate or a key changes', async () => {
  const config = sharedConnections(new KubeConfig());
  const dispatcherFor = async (server: string, certificate: string, key: string) => {
    config.loadFromOptions({
      clusters: [{ name: 'c', server, caData: base64('authority') }],
      users: [{ name: 'u', certData: base64(certificate), keyData: base64(key) }],
      contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
      currentContext: 'x',
    });
    const context = new RequestContext(server, 'GET');
    await config.applySecurityAuthentication(context);
    return context.getDispatcher();
  };
  const first = await dispatcherFor('https://127.0.0.1:1', 'certificate', 'key');
  expect(first).toBeDefined();
  const others = [
    await dispatcherFor('https://127.0.0.1:2', 'certificate', 'key'),
    await dispatcherFor('https://127.0.0.1:1', 'rotated', 'key'),
    await dispatcherFor('https://127.0.0.1:1', 'certificate', 'rotated'),
  ];
  expect(new Set([first, ...others]).size).toBe(4);
  expect(await dispatcherFor('https://127.0.0.1:1', 'certificate', 'key')).toBe(first);
  expect(await dispatcherFor('https://127.0.0.1:1', 'rotated', 'key')).toBe(others[1]);
});

it('keeps its connection after a DELETE with options', async () => {
  let connections = 0;
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      bodies.push(`${request.method} ${await text(request)}`);
      response.end('{}');
    };
    void answer();
  });
  server.on('connection', () => (connections += 1));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = await mkdtemp(join(tmpdir(), 'levelhook-test-'));
  try {
    const path = join(folder, 'kubeconfig');
    const { port } = server.address() as AddressInfo;
    const clusters = [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }];
    const contexts = [{ name: 'x', context: { cluster: 'c', user: 'u' } }];
    const users = [{ name: 'u', user: { token: 't' } }];
    await writeFile(path, JSON.stringify({ clusters, contexts, users, 'current-context': 'x' }));
    const send = kubeConfigTransport(path);
    const { signal } = new AbortController();
    const options = { body: '{"gracePeriodSeconds":0}', contentType: 'application/json' };
    for (let sent = 0; sent < 20; sent += 1) {
      const answer = await send({ method: 'DELETE', path: '/pods/a', signal, ...options });
      expect(answer).toMatchObject({ status: 200, body: '{}' });
    }
    expect(bodies).toEqual(Array.from({ length: 20 }, () => `DELETE ${options.body}`));
    // The pool may open a second connection while it considers the first busy.
    expect(connections).toBeLessThanOrEqual(2);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(folder, { recursive: true });
  }
});
