import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { generateSecret } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { HELD_MS, holdTimers } from '../../../../test/harness/held-timers.ts';
import { SocketServer } from '../../../../test/harness/socket-server.ts';
import { Endpoint } from './endpoint.ts';

/** When a function closes an idle connection: the shortest time that is in use. */
const IDLE_MS = 2000;

/** A function on a bare socket. It closes a connection that has been idle for a time, as Go's IdleTimeout does. */
class IdleServer extends SocketServer {
  /** Of each connection, in order: the requests that came, and which side ended it first. */
  readonly connections: { requests: number; closedBy?: 'gateway' | 'function' }[] = [];
  readonly #headers: string;
  readonly #idleMs: number;

  constructor(headers = '', idleMs = IDLE_MS) {
    super((socket) => this.#serve(socket));
    this.#headers = headers;
    this.#idleMs = idleMs;
  }

  #serve(socket: Socket): void {
    const connection: (typeof this.connections)[number] = { requests: 0 };
    this.connections.push(connection);
    let idle: NodeJS.Timeout | undefined;
    const end = (by: 'gateway' | 'function'): void => {
      clearTimeout(idle);
      connection.closedBy ??= by;
      socket.end();
    };
    socket.on('data', (chunk) => {
      // Each request has a body and comes in one piece.
      if (!String(chunk).includes('\r\n\r\n')) return;
      clearTimeout(idle);
      connection.requests += 1;
      socket.write(`HTTP/1.1 200 OK\r\n${this.#headers}content-length: 4\r\n\r\nfine`);
      idle = setTimeout(() => end('function'), this.#idleMs);
    });
    socket.on('end', () => end('gateway')).on('error', () => {});
  }
}

describe('a connection to a function', () => {
  let server: IdleServer | undefined;
  let endpoint: Endpoint | undefined;

  afterEach(async () => {
    await endpoint?.close();
    server?.close();
  });

  async function start(headers?: string, idleMs?: number): Promise<IdleServer> {
    server = new IdleServer(headers, idleMs);
    endpoint = new Endpoint(await server.open(), [await importExtractableSecret(generateSecret())], { connections: 1 });
    return server;
  }

  async function send(): Promise<void> {
    const answer = await endpoint?.send({ body: '{}', id: 'msg', timeoutMs: 60_000 });
    expect(answer).toMatchObject({ kind: 'answered', body: 'fine' });
  }

  /** Until the last connection has ended. */
  async function ended({ connections }: IdleServer): Promise<void> {
    while (connections.at(-1)?.closedBy === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
  }

  it('is used again at once, and closed by the gateway long before a function that names no time closes it', async () => {
    // A machine may stand still for longer than a second.
    const fn = await start('', 10 * IDLE_MS);
    for (let at = 0; at < 3; at += 1) await send();
    await ended(fn);
    await send();
    expect(fn.connections).toMatchObject([{ requests: 3, closedBy: 'gateway' }, { requests: 1 }]);
  });

  it.each([1, 2])('is not used again if the function keeps it for %i s only', async (seconds) => {
    const fn = await start(`keep-alive: timeout=${seconds}\r\n`, 10 * IDLE_MS);
    await send();
    await send();
    await ended(fn);
    expect(fn.connections).toMatchObject([{ requests: 1, closedBy: 'gateway' }, { requests: 1 }]);
  });
});

describe('a request without a connection', () => {
  let endpoint: Endpoint | undefined;
  beforeEach(() => (endpoint = undefined));
  afterEach(() => {
    vi.restoreAllMocks();
    return endpoint?.close();
  });

  it('is known not to have been sent when there is no such name', async () => {
    endpoint = new Endpoint('http://function.invalid/', [await importExtractableSecret(generateSecret())], {
      connections: 1,
    });
    // Longer than a resolver waits for servers that do not answer.
    const answer = await endpoint.send({ body: '{}', id: 'msg', timeoutMs: 120_000 });
    expect(answer).toMatchObject({ kind: 'refused', reason: 'connection' });
  });

  it('is known not to have been sent when it has waited for one until its deadline', async () => {
    let triggers = 0;
    const server = new SocketServer((socket) => void socket.on('data', () => (triggers += 1)).on('error', () => {}));
    endpoint = new Endpoint(await server.open(), [await importExtractableSecret(generateSecret())], { connections: 1 });
    const passDeadline = holdTimers();
    const first = endpoint.send({ body: '', id: 'a', timeoutMs: HELD_MS });
    const second = endpoint.send({ body: '', id: 'b', timeoutMs: 100 });
    expect(await second).toMatchObject({ kind: 'refused', reason: 'timeout' });
    await expect.poll(() => triggers).toBe(1);
    passDeadline();
    expect(await first).toMatchObject({ kind: 'failed', reason: 'timeout' });
    expect(triggers).toBe(1);
    server.close();
  });
});
