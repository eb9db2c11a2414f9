import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { records } from './record.ts';

const key = { namespace: 'a', name: 'web' };
const web = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { ...key, labels: { record: 'true' } },
  data: { address: '192.0.2.1' },
};

let service: Server;
let url: string;
let stored: Map<string, string>;
/** The status of the next answers; undefined: the service works. */
let refuses: number | undefined;

beforeEach(async () => {
  stored = new Map();
  refuses = undefined;
  service = createServer((request, response) => {
    const name = request.url?.slice('/records/'.length) ?? '';
    const answer = (body: string): void => {
      if (refuses !== undefined) return void response.writeHead(refuses).end();
      if (request.method === 'PUT') stored.set(name, body);
      const isGone = request.method === 'DELETE' && !stored.delete(name);
      response.writeHead(isGone ? 404 : 204).end();
    };
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString())).on('end', () => answer(body));
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
});

afterEach(() => new Promise((resolve) => service.close(resolve).closeAllConnections()));

it('puts the record behind a finalizer, and removes both with the ConfigMap', async () => {
  const apiserver = new MemoryApiserver({ objects: [web] });
  const run = () => runReconciler(records(url), key, { apiserver });
  expect((await run()).outcome.status).toBe('done');
  expect([...stored]).toEqual([['a-web', '192.0.2.1']]);
  expect(apiserver.object(ConfigMap, key)?.metadata.finalizers).toEqual(['example.com/record']);
  expect((await run()).writes).toEqual([]);
  apiserver.put({ ...web, metadata: { ...web.metadata, finalizers: ['example.com/record'], deletionTimestamp: NOW } });
  expect((await run()).outcome.status).toBe('done');
  expect([...stored]).toEqual([]);
  expect(apiserver.object(ConfigMap, key)).toBeUndefined();
});

it('keeps the ConfigMap while the service does not remove the record, and takes a record that is gone for removed', async () => {
  const deleted = { ...web.metadata, finalizers: ['example.com/record'], deletionTimestamp: NOW };
  const apiserver = new MemoryApiserver({ objects: [{ ...web, metadata: deleted }] });
  const run = () => runReconciler(records(url), key, { apiserver });
  refuses = 500;
  expect((await run()).outcome.status).toBe('error');
  expect(apiserver.object(ConfigMap, key)).toBeDefined();
  refuses = undefined;
  expect((await run()).outcome.status).toBe('done');
  expect(apiserver.object(ConfigMap, key)).toBeUndefined();
});

const NOW = '2026-01-01T00:00:00Z';
