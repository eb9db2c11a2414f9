import { EventEmitter, once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../core/index.ts';
import { ClientConnections } from './client-connections.ts';
import { HANDSHAKES } from './handshake-rates.ts';

const ROOM = 64;
const APISERVER = '127.0.0.99';
const STRANGERS = Array.from({ length: 12 }, (_, at) => `127.0.0.${at + 2}`);

/**
 * A server whose connections are admitted as those of a server of the gateway. It ends all answers but those of
 * `/slow`.
 */
class AdmittingServer {
  readonly slow: ServerResponse[] = [];
  readonly #sockets: Socket[] = [];
  readonly #server: Server;

  constructor(connections: ClientConnections, create: (listener: RequestListener) => Server = createServer) {
    this.#server = create((request, response) => {
      request.resume();
      if (request.url !== '/slow') return void request.once('end', () => response.end('fine'));
      this.slow.push(response);
      response.flushHeaders();
    });
    connections.bound(this.#server);
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Resolves with the head of the next request. */
  async askedOnce(): Promise<void> {
    await once(this.#server, 'request');
  }

  /** A connection from this address. @returns undefined when it was closed. */
  async connect(address: string, path?: string): Promise<Socket | undefined> {
    const { port } = this.#server.address() as AddressInfo;
    const socket = connect({ port, host: '127.0.0.1', localAddress: address });
    this.#sockets.push(socket);
    socket.on('error', () => {});
    await once(socket, 'connect');
    return path === undefined || (await this.ask(socket, path)) ? socket : undefined;
  }

  /** @returns whether an answer began. */
  async ask(socket: Socket, path: string): Promise<boolean> {
    socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}`);
    return Promise.race([
      once(socket, 'data').then(() => true),
      new Promise<boolean>((resolve) => socket.once('close', () => resolve(false))),
    ]).catch(() => false);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

describe('the connections of clients', () => {
  let server: AdmittingServer;
  let connections: ClientConnections;
  let aheadMs: number;

  beforeEach(async () => {
    aheadMs = 0;
    connections = new ClientConnections({ now: () => systemClock.now() + aheadMs }, ROOM);
    server = new AdmittingServer(connections);
    await server.open();
  });

  afterEach(() => server.close());

  /** Each address opens as many as it gets. */
  async function fill(path?: string): Promise<Socket[]> {
    const opened: (Socket | undefined)[] = [];
    for (const address of STRANGERS) {
      const asked = Array.from({ length: ROOM }, () => server.connect(address, path));
      opened.push(...(await Promise.all(asked)));
    }
    return opened.filter((socket) => socket !== undefined);
  }

  it.each([
    ['that have sent nothing', undefined],
    ['that wait for their next request', '/'],
  ])('have room for an apiserver when twelve other addresses hold all %s', async (_, path) => {
    await fill(path);
    const held: Socket[] = [];
    for (let at = 0; at < 4; at += 1) {
      const socket = await server.connect(APISERVER, '/');
      expect(socket).toBeDefined();
      if (socket) held.push(socket);
    }
    // Nor do the strangers get them back, because none of them has more than the others by then.
    await fill(path);
    for (const socket of held) expect(await server.ask(socket, '/')).toBe(true);
  });

  it('end after ten seconds without a request', async () => {
    const silent = await server.connect(APISERVER);
    const asking = await server.connect(APISERVER, '/');
    await connections.closeLate();
    aheadMs = 10_000;
    const closed = once(silent ?? new EventEmitter(), 'close');
    await connections.closeLate();
    await closed;
    expect(await server.ask(asking ?? expect.fail(), '/')).toBe(true);
  });

  it('are not closed under a request that comes after ten silent seconds, however busy the thread is', async () => {
    const silent = await server.connect(APISERVER);
    if (!silent) expect.fail();
    aheadMs = 10_000;
    const answered = server.ask(silent, '/');
    // In the same turn, so that the request waits in the socket.
    await connections.closeLate();
    expect(await answered).toBe(true);
  });

  it('have ten seconds for the rest of a request that comes after ten silent seconds', async () => {
    const silent = await server.connect(APISERVER);
    if (!silent) expect.fail();
    aheadMs = 9000;
    const began = server.askedOnce();
    silent.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{');
    await began;
    aheadMs = 12_000;
    await connections.closeLate();
    const answered = once(silent, 'data');
    silent.write('}');
    await answered;
  });

  it('stay open while a request is answered', async () => {
    const busy = await fill('/slow');
    expect(await server.connect(APISERVER, '/')).toBeUndefined();
    let answered = 0;
    for (const socket of busy) socket.once('data', () => (answered += 1));
    for (const response of server.slow) response.end('late');
    while (answered < server.slow.length) await new Promise((next) => setTimeout(next, 5));
    expect(answered).toBeGreaterThan(ROOM / 2);
    expect(await server.connect(APISERVER, '/')).toBeDefined();
  });
});

describe('the connections of clients to a server with TLS', () => {
  let server: AdmittingServer;
  let nowMs: number;

  beforeEach(async () => {
    nowMs = 0;
    // It has no certificate, and needs none: connections are refused before TLS.
    server = new AdmittingServer(new ClientConnections({ now: () => nowMs }, HANDSHAKES.burst * 8), createHttpsServer);
    await server.open();
  });

  afterEach(() => server.close());

  /** Connects more often than is allowed. */
  async function expectRefused(address: string, count: number): Promise<void> {
    let closed = 0;
    for (let at = 0; at < HANDSHAKES.burst + 100; at += 1) {
      const socket = await server.connect(address);
      socket?.resume().once('close', () => (closed += 1));
    }
    await expect.poll(() => closed, { timeout: 60_000 }).toBe(count);
  }

  it('are refused where one source opens them faster than its rate', async () => {
    const [stranger = '', other = ''] = STRANGERS;
    await expectRefused(stranger, 100);
    nowMs += 500;
    await expectRefused(stranger, HANDSHAKES.burst + 100 - HANDSHAKES.perSecond / 2);
    await expectRefused(other, 100);
  });
});
