import { type AddressInfo, connect, createServer } from 'node:net';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { ApiClient } from '../../../src/gateway/apiserver/api-client.ts';
import { loadCredentials } from '../../../src/gateway/apiserver/credentials.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
let directory: string;
/** The first piece that a client has sent. */
let hello: Buffer = Buffer.alloc(0);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cut-'));
  started.add(() => rm(directory, { recursive: true }));
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
  // It fails, or was through before; what counts is that it ends, and that the next one is not held up by it.
  await version().catch((error: unknown) => expect(error).toBeInstanceOf(Error));
  await expect(version().catch(() => version())).resolves.toMatchObject({ major: '1' });
  await credentials.close();
});

/** What a client offers stands in its first message, readable. */
test('requests are made in HTTP/1.1: in HTTP/2 one that is cut in a bad moment never ends', async () => {
  hello = Buffer.alloc(0);
  const credentials = await loadCredentials(await cutAfter(1000));
  await new ApiClient(credentials).json({ path: '/version' });
  expect(hello.includes('\u0008http/1.1')).toBe(true);
  expect(hello.includes('\u0002h2')).toBe(false);
  await credentials.close();
});
