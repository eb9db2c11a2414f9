import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { webCheck } from './web-check.ts';

const key = { namespace: 'a', name: 'b' };
let server: Server;
let origin: string;

beforeAll(async () => {
  // Answers with the status in its path.
  server = createServer((request, response) =>
    response.writeHead(Number(request.url?.slice(1)), { 'retry-after': '7' }).end(),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));

async function check(url: string) {
  const metadata = { ...key, labels: { check: 'true' } };
  const apiserver = new MemoryApiserver({
    objects: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { url } }],
  });
  const { outcome } = await runReconciler(webCheck, key, { apiserver });
  return { outcome, annotations: apiserver.object(ConfigMap, key)?.metadata.annotations };
}

it.each([200, 404])('writes the status %s', async (status) => {
  const { annotations, outcome } = await check(`${origin}/${status}`);
  expect(outcome).toMatchObject({ status: 'done' });
  expect(annotations).toEqual({ 'example.com/status': String(status) });
});

it('fails for a server that fails, and comes back when a busy one says so', async () => {
  expect((await check(`${origin}/500`)).outcome).toMatchObject({
    status: 'error',
    message: `${origin}/500 answered 500`,
  });
  expect((await check(`${origin}/503`)).outcome).toMatchObject({ status: 'error', retryAfterSeconds: 7 });
});

it('gives up at once for what is no URL', async () => {
  expect((await check('nonsense')).outcome).toMatchObject({
    status: 'terminal',
    message: 'data.url is no URL: "nonsense"',
  });
});
