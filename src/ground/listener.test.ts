import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Listener } from './listener.ts';

const REMEDY = { remedy: 'with --port' };
const LOOPBACK = { host: '127.0.0.1', port: 0 };
const CONNECTIONS = 256;

it.runIf(process.platform === 'linux')('takes more than one connection in a turn of the event loop', async () => {
  const server = createServer();
  let turns = 0;
  const takenAt: number[] = [];
  server.on('connection', () => void takenAt.push(turns));
  const listener = await Listener.start(server, LOOPBACK, REMEDY);
  const port = Number(listener.address.split(':')[1]);
  const clients: Socket[] = [];
  for (let at = 0; at < CONNECTIONS; at += 1) clients.push(connect(port, '127.0.0.1'));
  while (takenAt.length < CONNECTIONS) {
    turns += 1;
    await nextTurn();
  }
  // One in a turn would take as many turns as there are connections.
  expect((takenAt.at(-1) ?? 0) - (takenAt[0] ?? 0)).toBeLessThan(CONNECTIONS / 2);
  for (const client of clients) client.destroy();
  server.closeAllConnections();
  await listener.close();
});

it('answers on each of its sockets, and closes them all', async () => {
  const server = createServer((_, response) => response.end('answered'));
  const listener = await Listener.start(server, LOOPBACK, REMEDY);
  const ask = async (): Promise<string> =>
    (await fetch(`http://${listener.address}`, { headers: { connection: 'close' } })).text();
  expect(new Set(await Promise.all(Array.from({ length: 64 }, ask)))).toEqual(new Set(['answered']));
  await listener.close();
  await expect(ask()).rejects.toThrow('fetch failed');
});

it('refuses a port on which another server listens, which could share it', async () => {
  const first = await Listener.start(createServer(), LOOPBACK, REMEDY);
  const port = Number(first.address.split(':')[1]);
  const second = createServer();
  await expect(Listener.start(second, { host: '127.0.0.1', port }, REMEDY)).rejects.toThrow(
    `The gateway cannot listen on 127.0.0.1:${port} (another process listens there): choose another with --port.`,
  );
  expect(second.listening).toBe(false);
  const plain = createServer();
  plain.listen(port, '127.0.0.1');
  const [error] = (await once(plain, 'error')) as [NodeJS.ErrnoException];
  expect(error.code).toBe('EADDRINUSE');
  await first.close();
});
