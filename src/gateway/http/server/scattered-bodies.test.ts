import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NO_LOGIN, NO_QUEUES } from '../../../../test/harness/login.ts';
import { silentLogger } from '../../../core/index.ts';
import { AdminServer } from './admin-server.ts';

describe('a request whose handler waits before it reads the body', () => {
  let server: AdminServer;
  const scrape = Promise.withResolvers<string>();

  beforeEach(async () => {
    server = new AdminServer({
      listen: { host: '127.0.0.1', port: 0 },
      live: new Map(),
      ready: new Map(),
      metrics: () => scrape.promise,
      apis: { dashboard: new Hono(), reconcile: new Hono(), queues: NO_QUEUES },
      login: NO_LOGIN,
      logger: silentLogger,
    });
    await server.start();
  });

  afterEach(() => server.stop());

  /** @returns all that the server sends until it closes the connection. */
  async function send(chunks: readonly string[]): Promise<string> {
    const socket = connect({ port: Number(new URL(server.url).port), host: '127.0.0.1' });
    socket.on('error', () => {});
    await once(socket, 'connect');
    const pieces = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
    const head = 'GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n';
    socket.write(`${head}\r\n${pieces.join('')}0\r\n\r\n`);
    return text(socket);
  }

  it('is refused when the body comes in many small chunks', async () => {
    const answer = await send(Array.from({ length: 10_000 }, () => 'x'));
    expect(answer).toMatch(/^HTTP\/1.1 400 [^]*more than 256 chunks of less than 256 bytes/);
  });

  it('is answered when they are few, or large', async () => {
    const few = send(Array.from({ length: 250 }, () => 'x'));
    const large = send(Array.from({ length: 100 }, () => 'x'.repeat(300)));
    scrape.resolve('fine');
    expect(await few).toMatch(/^HTTP\/1.1 200 [^]*fine/);
    expect(await large).toMatch(/^HTTP\/1.1 200 [^]*fine/);
  });
});
