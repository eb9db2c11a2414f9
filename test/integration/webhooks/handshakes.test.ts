import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileCertificate } from '../../../src/gateway/certificates/serving-certificate.ts';
import { WebhookServer } from '../../../src/gateway/http/webhooks/webhook-server.ts';
import { HANDSHAKES } from '../../../src/ground/handshake-rates.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';

const APISERVER = '127.0.0.2';
const STRANGER = '127.0.0.3';
const MORE = 100;

describe('the port of reviews that knows apiservers', () => {
  let folder: string;
  let pem: (name: string) => Promise<string>;
  let server: WebhookServer;
  let renewed: () => void;
  let opened: Socket[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'levelhook-handshakes-'));
    await createCertificates(join(folder, 'pki'));
    pem = (name) => readFile(join(folder, 'pki', name), 'utf8');
  });
  afterAll(() => rm(folder, { recursive: true }));

  beforeEach(async () => {
    opened = [];
    const authority = await pem('front-proxy-ca.crt');
    const files = { certFile: join(folder, 'pki', 'serving.crt'), keyFile: join(folder, 'pki', 'serving.key') };
    server = new WebhookServer({
      listen: { host: '127.0.0.1', port: 0 },
      certificate: new FileCertificate(files),
      authorities: {
        current: () => authority,
        onRenewed: (listener) => {
          renewed = listener;
          return () => {};
        },
      },
      api: { handle: async () => new Response('{}') },
      // It stands still, so that no token is added however long a test takes.
      clock: { now: () => 0 },
    });
    await server.start();
  });
  afterEach(async () => {
    for (const socket of opened) socket.destroy();
    await server.stop();
  });

  async function open(address: string): Promise<Socket> {
    const socket = connect({ port: Number(new URL(server.url).port), host: '127.0.0.1', localAddress: address });
    opened.push(socket.on('error', () => {}));
    await once(socket, 'connect');
    return socket;
  }

  /**
   * Opens more connections than a burst has, together: the server ends each that is silent for ten seconds.
   * @returns a function that counts the closed connections.
   */
  async function openMany(address: string): Promise<() => number> {
    let closed = 0;
    const sockets = await Promise.all(Array.from({ length: HANDSHAKES.burst + MORE }, () => open(address)));
    for (const socket of sockets) socket.resume().once('close', () => (closed += 1));
    return () => closed;
  }

  /** Those beyond the burst are closed, and no other ones are before their time is over. */
  async function expectBounded(closed: () => number): Promise<void> {
    await expect.poll(closed, { timeout: 60_000, interval: 10 }).toBeGreaterThanOrEqual(MORE);
    expect(closed()).toBeLessThan(2 * MORE);
  }

  /** Ends a handshake with the certificate of an apiserver, and asks, so that the server has seen it. */
  async function askAsApiserver(): Promise<void> {
    const [cert, key] = [await pem('front-proxy-client.crt'), await pem('front-proxy-client.key')];
    const socket = connectTls({ socket: await open(APISERVER), rejectUnauthorized: false, cert, key });
    socket.on('error', () => {}).write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await once(socket, 'data');
    socket.destroy();
  }

  it('refuses the connections of an address that opens them too fast, and takes those of an apiserver', async () => {
    await askAsApiserver();
    await expectBounded(await openMany(STRANGER));
    // Of all connections the server has a bound, too.
    for (const socket of opened) socket.destroy();
    const apiservers = await openMany(APISERVER);
    await askAsApiserver();
    expect(apiservers()).toBe(0);
  });

  it('bounds the address of an apiserver again when the authorities have changed', async () => {
    await askAsApiserver();
    renewed();
    await expectBounded(await openMany(APISERVER));
  });
});
