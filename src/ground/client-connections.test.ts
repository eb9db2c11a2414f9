import { EventEmitter, once } from 'node:events';
import { createServer, IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../core/index.ts';
import { ADMITTED, ClientConnections } from './client-connections.ts';
import { HANDSHAKES } from './handshake-rates.ts';

const ROOM = 64;
const APISERVER = '127.0.0.99';
const STRANGERS = Array.from({ length: 12 }, (_, at) => `127.0.0.${at + 2}`);

/** More than the buffers of both sides of a connection take. */
const LONG = Buffer.alloc(16 * 1024 * 1024);

/**
 * A server whose connections are admitted as those of a server of the gateway. It ends all answers but those of
 * `/slow`. The answer of `/long` is long.
 */
class AdmittingServer {
  readonly slow: ServerResponse[] = [];
  requests = 0;
  readonly #sockets: Socket[] = [];
  readonly #accepted: Socket[] = [];
  readonly #server: Server;

  constructor(
    connections: ClientConnections,
    create = (listener: RequestListener): Server => createServer(ADMITTED, listener),
  ) {
    this.#server = create((request, response) => {
      this.requests += 1;
      let bytes = 0;
      request.on('data', (chunk: Buffer) => (bytes += chunk.length));
      if (request.url === '/long') return void response.end(LONG);
      if (request.url === '/count') return void request.once('end', () => response.end(`${bytes} bytes`));
      if (request.url !== '/slow') return void request.once('end', () => response.end('fine'));
      this.slow.push(response);
      response.flushHeaders();
    });
    // As the servers of a gateway have it: idle connections are not closed by Node.
    this.#server.keepAliveTimeout = 180_000;
    connections.bound(this.#server);
    this.#server.on('connection', (socket: Socket) => this.#accepted.push(socket));
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** How long nothing of an answer may be taken. */
  set untakenMs(ms: number) {
    this.#server.timeout = ms;
  }

  /** Calls the listener at the head of each request, handled or refused. */
  onHead(listener: () => void): void {
    this.#server.prependListener('request', listener);
  }

  /** Resolves when the server has closed its side of this connection. */
  async closed({ localPort }: Socket): Promise<void> {
    const own = this.#accepted.find(({ remotePort }) => remotePort === localPort) ?? expect.fail();
    await once(own, 'close');
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

  it('end with the third request that comes before the first is answered, and the others are not handled', async () => {
    const socket = (await server.connect(APISERVER)) ?? expect.fail();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write('POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}'.repeat(50_000));
    await closed;
    expect(server.requests).toBe(2);
  });

  it.each([
    ['an expectation that nobody knows', 'GET /slow HTTP/1.1\r\nhost: x\r\nexpect: x\r\n\r\n'],
    ['no Host', 'GET /slow HTTP/1.1\r\n\r\n'],
  ])('end with the third request also when it has %s', async (_, request) => {
    const socket = (await server.connect(APISERVER)) ?? expect.fail();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(request.repeat(50_000));
    await closed;
    expect(server.requests).toBe(2);
  });

  it('wait with the bytes of a request that comes while its client takes no answer', async () => {
    const socket = (await server.connect(APISERVER)) ?? expect.fail();
    socket.pause().write('GET /long HTTP/1.1\r\nhost: x\r\n\r\n');
    await expect.poll(() => server.requests, { timeout: 20_000 }).toBe(1);
    socket.write(`POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n\r\n${'x'.repeat(9000)}`);
    await new Promise((later) => setTimeout(later, 100));
    let end = '';
    socket.on('data', (chunk: Buffer) => (end = (end + chunk.toString('latin1')).slice(-100))).resume();
    await expect.poll(() => end, { timeout: 20_000 }).toContain('9000 bytes');
  });

  it('are read in one turn as far as some eighty requests go, however many have come', async () => {
    let heads = 0;
    server.onHead(() => (heads += 1));
    const socket = (await server.connect(APISERVER)) ?? expect.fail();
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(50_000));
    await closed;
    expect(heads).toBeGreaterThan(2);
    expect(heads).toBeLessThan(100);
  });

  it('have their requests whole, whatever the length and the number of their bodies', async () => {
    const socket = (await server.connect(APISERVER)) ?? expect.fail();
    let received = '';
    socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
    const lengths = [0, 1, 1023, 1024, 1025, 65_536, 300_000, 0, 5000, 2];
    for (const length of lengths) {
      const head = `POST /count HTTP/1.1\r\nhost: x\r\n`;
      received = '';
      if (length === 5000) {
        const chunk = `${(500).toString(16)}\r\n${'x'.repeat(500)}\r\n`;
        socket.write(`${head}transfer-encoding: chunked\r\n\r\n${chunk.repeat(10)}0\r\n\r\n`);
      } else socket.write(`${head}content-length: ${length}\r\n\r\n${'x'.repeat(length)}`);
      await expect.poll(() => received, { timeout: 20_000 }).toContain(`${length} bytes`);
    }
    // The next one may be sent before this side has heard that the last byte of the answer was taken.
    received = '';
    socket.write('POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nxxx'.repeat(2));
    await expect.poll(() => received.match(/3 bytes/g)?.length, { timeout: 20_000 }).toBe(2);
  });

  it('end when their answer is not taken in time, and not while a handler works at one', async () => {
    server.untakenMs = 200;
    const working = (await server.connect(APISERVER, '/slow')) ?? expect.fail();
    const untaken = (await server.connect(APISERVER)) ?? expect.fail();
    let ends = 0;
    working.once('close', () => (ends += 1));
    untaken.pause().write('GET /long HTTP/1.1\r\nhost: x\r\n\r\n');
    await server.closed(untaken);
    expect(ends).toBe(0);
    server.slow[0]?.end('late');
    expect(String(await once(working, 'data'))).toContain('late');
  });

  it('make room for an apiserver when twelve other addresses take no answer', async () => {
    for (const address of STRANGERS) {
      for (let at = 0; at < ROOM; at += 1) {
        const socket = await server.connect(address);
        socket?.pause().write('GET /long HTTP/1.1\r\nhost: x\r\n\r\n');
      }
    }
    await expect.poll(() => server.requests, { timeout: 20_000 }).toBeGreaterThan(ROOM / 2);
    expect(await server.connect(APISERVER, '/')).toBeDefined();
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
    server = new AdmittingServer(new ClientConnections({ now: () => nowMs }, HANDSHAKES.burst * 8), (listener) =>
      createHttpsServer(ADMITTED, listener),
    );
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

it('an apiserver that has shown its certificate has room when strangers wait for answers in all places', () => {
  const connections = new ClientConnections({ now: () => 0 }, ROOM);
  connections.bound(createHttpsServer(ADMITTED));
  const apiserver = new Client(APISERVER, 1);
  expect(connections.admit(apiserver.socket)).toBe(true);
  connections.secured(apiserver.socket);
  let open = 0;
  for (const address of STRANGERS) {
    for (let port = 1; port <= ROOM; port += 1) {
      const { socket } = new Client(address, port);
      if (!connections.admit(socket)) continue;
      open += 1;
      const incoming = new IncomingMessage(socket);
      connections.asked(incoming, new ServerResponse(incoming));
      incoming.complete = true;
    }
  }
  expect(open).toBe(ROOM);
  expect(connections.admit(new Client('127.0.0.98', 1).socket)).toBe(false);
  for (let port = 2; port < 30; port += 1) {
    expect(connections.admit(new Client(APISERVER, port).socket)).toBe(true);
  }
});

/** A connection of TLS from an address, with a certificate of the authorities. */
class Client {
  readonly socket: TLSSocket;

  constructor(remoteAddress: string, remotePort: number) {
    const certified = { authorized: true, getPeerX509Certificate: () => ({}) };
    this.socket = Object.assign(new TLSSocket(new Socket()), certified);
    Object.defineProperties(this.socket, {
      remoteAddress: { value: remoteAddress },
      remotePort: { value: remotePort },
    });
  }
}
