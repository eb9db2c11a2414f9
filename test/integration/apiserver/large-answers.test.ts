import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import { ApiClient } from '../../../src/ground/apiserver/api-client.ts';
import type { Credentials } from '../../../src/ground/apiserver/credentials.ts';
import { ListWatch } from '../../../src/gateway/informer/reflector/list-watch.ts';
import { garbageCollector } from '../../harness/memory-use.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
const accepted: (string | undefined)[] = [];
let client: ApiClient;

/** An apiserver whose objects take this thread longer to parse than a slice of its time. */
beforeAll(async () => {
  const text = JSON.stringify({
    metadata: { resourceVersion: '7' },
    items: [],
    x: Array.from({ length: 300_000 }, () => ({})),
  });
  const server = createServer((request, response) => {
    accepted.push(request.headers.accept);
    response.setHeader('content-type', 'application/json').end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const dispatcher = new Agent();
  started.add(async () => {
    await dispatcher.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const access = async () => ({ server: address, dispatcher, headers: {} });
  client = new ApiClient({ server: address, access, refresh: () => {} } as unknown as Credentials);
});

afterAll(() => started.stop());

test('of many large answers at a time few are parsed and still held', async () => {
  const collect = garbageCollector();
  const heap = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const empty = heap();
  const one = await client.json<{ x: unknown[] }>({ path: '/large' });
  const ofOne = heap() - empty;
  expect(one.x.length).toBeGreaterThan(0);
  one.x.length = 0;
  const before = heap();
  let most = 0;
  const read = async (): Promise<void> => {
    await client.json({ path: '/large' });
    most = Math.max(most, heap() - before);
  };
  await Promise.all(Array.from({ length: 10 }, read));
  expect(most).toBeLessThan(4 * ofOne);
});

test('the version of now is asked for without objects, where the server can leave them out', async () => {
  accepted.length = 0;
  const { signal } = new AbortController();
  expect(await new ListWatch(client, resource('v1', 'Pod')).currentVersion(signal)).toBe('7');
  expect(accepted).toEqual(['application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json']);
});
