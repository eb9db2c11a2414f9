import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as connectTcp, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Hono } from 'hono';
import { Agent, request } from 'undici';
import { type Clock, silentLogger, systemClock } from '../../../src/core/index.ts';
import { AdminServer } from '../../../src/gateway/http/server/admin-server.ts';
import { HANDSHAKES } from '../../../src/ground/handshake-rates.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { eventually } from '../../harness/eventually.ts';
import { NO_LOGIN, NO_QUEUES } from '../../harness/login.ts';

describe('a gateway with a certificate', () => {
  let folder: string;
  let first: string;
  let second: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'levelhook-tls-'));
    first = await createCertificates(join(folder, 'first'));
    second = await createCertificates(join(folder, 'second'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  const files = () => ({ certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') });
  async function use(which: 'first' | 'second'): Promise<void> {
    await copyFile(join(folder, which, 'serving.key'), files().keyFile);
    await copyFile(join(folder, which, 'serving.crt'), files().certFile);
  }
  /** How often the certificate was read, and how often in vain. */
  const counted = new Map<string, number>();
  const count = (name: string): void => void counted.set(name, (counted.get(name) ?? 0) + 1);
  const serverOf = (clock?: Clock) =>
    new AdminServer({
      ...(clock ? { clock } : {}),
      listen: { host: '127.0.0.1', port: 0, tls: files(), metrics: { count } },
      live: new Map([['ping', () => undefined]]),
      ready: new Map(),
      metrics: async () => '',
      apis: { dashboard: new Hono(), reconcile: new Hono(), queues: NO_QUEUES },
      login: NO_LOGIN,
      logger: silentLogger,
    });

  /** Over a new connection, so with the certificate of now. */
  async function ask(url: string, ca: string): Promise<string> {
    const agent = new Agent({ connect: { ca } });
    try {
      return await (await request(`${url}/livez`, { dispatcher: agent })).body.text();
    } finally {
      await agent.destroy();
    }
  }

  it('serves https alone, and takes a renewed certificate without a restart', async () => {
    await use('first');
    counted.clear();
    const server = serverOf();
    await server.start();
    try {
      expect(server.url).toMatch(/^https:/);
      expect(await ask(server.url, first)).toBe('ok');
      await expect(ask(server.url, second)).rejects.toThrow(/certificate/);
      await expect(request(`${server.url.replace('https', 'http')}/livez`)).rejects.toThrow();
      expect(counted.get('certwatcher_read_certificate_total')).toBe(1);
      await use('second');
      await eventually(async () => expect(await ask(server.url, second)).toBe('ok'));
      expect(counted.get('certwatcher_read_certificate_total')).toBeGreaterThan(1);
    } finally {
      await server.stop();
    }
  });

  it('ends connections that are silent before, in or after the handshake', { timeout: 60_000 }, async () => {
    await use('first');
    const server = serverOf();
    await server.start();
    const port = Number(new URL(server.url).port);
    const silent = [
      connectTcp(port, '127.0.0.1'),
      connectTcp(port, '127.0.0.1', function half(this: Socket) {
        this.write('\x16\x03\x01');
      }),
      connectTls({ port, host: '127.0.0.1', ca: first }),
    ];
    try {
      await Promise.all(silent.map((socket) => once(socket.on('error', () => {}).resume(), 'close')));
    } finally {
      for (const socket of silent) socket.destroy();
      await server.stop();
    }
  });

  it('closes connections of an address that opens them faster than its rate', { timeout: 60_000 }, async () => {
    await use('first');
    // A slow machine would open them more slowly than the rate.
    const server = serverOf({ ...systemClock, now: () => 0 });
    await server.start();
    const port = Number(new URL(server.url).port);
    const opened: Socket[] = [];
    const closed: Socket[] = [];
    try {
      // Fewer than the connections that one address may have.
      while (closed.length === 0 && opened.length < 3000) {
        const socket = connectTcp({ port, host: '127.0.0.1', localAddress: '127.0.0.2' });
        opened.push(socket.on('error', () => {}).resume());
        await once(socket, 'connect');
        socket.once('close', () => closed.push(socket));
      }
      expect(closed.length).toBeGreaterThan(0);
      expect(opened.length).toBeGreaterThan(HANDSHAKES.burst);
      // Another address has a rate of its own.
      expect(await ask(server.url, first)).toBe('ok');
    } finally {
      for (const socket of opened) socket.destroy();
      await server.stop();
    }
  });

  it('does not start with files that it cannot use', async () => {
    await use('first');
    await writeFile(files().certFile, 'nothing');
    counted.clear();
    await expect(serverOf().start()).rejects.toThrow(/The certificate .*tls.crt with the key .*tls.key cannot be used/);
    expect(Object.fromEntries(counted)).toEqual({
      certwatcher_read_certificate_total: 1,
      certwatcher_read_certificate_errors_total: 1,
    });
    await copyFile(join(folder, 'second', 'serving.crt'), files().certFile);
    await expect(serverOf().start()).rejects.toThrow(/cannot be used/);
  });
});
