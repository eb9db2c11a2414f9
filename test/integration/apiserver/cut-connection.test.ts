import { type AddressInfo, connect, createServer } from 'node:net';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { KubeConfig, VersionApi } from '@kubernetes/client-node';
import { parse, stringify } from 'yaml';
import { kubeConfigTransport, sharedConnections } from '../../../src/function/node/index.ts';
import { ApiClient } from '../../../src/ground/apiserver/api-client.ts';
import { loadCredentials } from '../../../src/ground/apiserver/credentials.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
let directory: string;
/** The first piece that a client has sent. */
let hello: Buffer = Buffer.alloc(0);

beforeAll(async () => {
  directory = await started.directory();
});

afterAll(() => started.stop());

/** A kubeconfig that leads through a proxy, which breaks its first connection when so many pieces have passed. */
async function cutAfter(pieces: number): Promise<string> {
  const config = parse(await readFile(inject('kubeconfig'), 'utf8')) as { clusters: { cluster: { server: string } }[] };
  const [first] = config.clusters;
  if (!first) throw new Error('the kubeconfig has no cluster');
  const { hostname, port } = new URL(first.cluster.server);
  let left = pieces;
  const server = createServer((inside) => {
    const outside = connect({ host: hostname, port: Number(port) });
    for (const [from, to] of [
      [inside, outside],
      [outside, inside],
    ] as const) {
      from.on('error', () => {});
      from.on('close', () => to.destroy());
      from.on('data', (data: Buffer) => {
        if (hello.length === 0) hello = data;
        left -= 1;
        if (left !== 0) to.write(data);
        else for (const each of [inside, outside]) each.resetAndDestroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  started.add(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  first.cluster.server = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const path = join(directory, `after-${pieces}`);
  await writeFile(path, stringify(config));
  return path;
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])('a request ends when its connection breaks at piece %i', async (pieces) => {
  const credentials = await loadCredentials(await cutAfter(pieces));
  const client = new ApiClient(credentials);
  const version = (): Promise<unknown> => client.json({ path: '/version' });
  // It fails, or was through before; what counts is that it ends, and that the next one is not delayed by it.
  await version().catch((error: unknown) => expect(error).toBeInstanceOf(Error));
  await expect(version().catch(() => version())).resolves.toMatchObject({ major: '1' });
  await credentials.close();
});

/** What a client offers stands in its first message, readable. */
async function expectHttp1(request: (kubeconfig: string) => Promise<unknown>): Promise<void> {
  hello = Buffer.alloc(0);
  await request(await cutAfter(1000));
  expect(hello.includes('\u0008http/1.1')).toBe(true);
  expect(hello.includes('\u0002h2')).toBe(false);
}

test('the gateway asks in HTTP/1.1: in HTTP/2 a request that is cut in a bad moment never ends', async () => {
  await expectHttp1(async (kubeconfig) => {
    const credentials = await loadCredentials(kubeconfig);
    await new ApiClient(credentials).json({ path: '/version' });
    await credentials.close();
  });
});

test('a function writes in HTTP/1.1: in HTTP/2 one that is given up in a bad moment ends the process', async () => {
  const signal = AbortSignal.timeout(10_000);
  await expectHttp1((kubeconfig) => kubeConfigTransport(kubeconfig)({ method: 'GET', path: '/version', signal }));
});

test('client-node’s own classes ask in HTTP/1.1 as well, when they share connections', async () => {
  await expectHttp1(async (kubeconfig) => {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    await sharedConnections(config).makeApiClient(VersionApi).getCode();
  });
});
