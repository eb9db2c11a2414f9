import { constants } from 'node:crypto';
import { createServer, type Server } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { generateSecret, type SigningKey } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { threadMs } from '../../../ground/time-slice.ts';
import { type CertificateChain, createCertificateChain } from '../../../../test/harness/certificate-chain.ts';
import { eventually } from '../../../../test/harness/eventually.ts';
import { LoopbackServer } from '../../../../test/harness/loopback-server.ts';
import { SocketServer } from '../../../../test/harness/socket-server.ts';
import { TicketFlood } from '../../../../test/harness/ticket-flood.ts';
import { type Answer, Endpoint } from './endpoint.ts';
import type { HandshakeBudget } from './handshakes.ts';

const MEBIBYTE = 1024 * 1024;
/** Handshakes of a tenant that may be under way. */
const AT_ONCE = 100;

/** A budget that is used up while a test says so, and measures the work. */
class Purse implements HandshakeBudget {
  spentMs = 0;
  /** Pieces of work that were measured. */
  runs = 0;
  /** Steps of handshakes that were begun, or wait. */
  steps = 0;
  /** It is used up after this step. */
  closeAfter = Infinity;
  #closed: PromiseWithResolvers<void> | undefined;

  close(): void {
    this.#closed = Promise.withResolvers();
  }

  open(): void {
    this.#closed?.resolve();
    this.#closed = undefined;
  }

  run<T>(work: () => T): T {
    this.runs += 1;
    const fromMs = threadMs();
    try {
      return work();
    } finally {
      this.spentMs += threadMs() - fromMs;
    }
  }

  async inTurn<T>(work: () => T): Promise<T> {
    this.steps += 1;
    if (this.#closed) await this.#closed.promise;
    if (this.steps === this.closeAfter) this.close();
    return this.run(work);
  }
}

describe("the TLS handshakes of a tenant's functions", () => {
  let ordinary: CertificateChain;
  let long: CertificateChain;
  let keys: readonly SigningKey[];
  let purse: Purse;
  let ends: (() => unknown)[];

  beforeAll(async () => {
    ordinary = await createCertificateChain(1);
    long = await createCertificateChain(21, 'P-521');
    keys = [await importExtractableSecret(generateSecret())];
  });

  beforeEach(() => {
    purse = new Purse();
    ends = [];
  });

  afterEach(async () => {
    purse.open();
    for (const end of ends.toReversed()) await end();
  });

  /** Answers with the body of the request, and closes the connection after it if the path says so. */
  async function serve(chain: CertificateChain, more: object = {}): Promise<{ server: Server; url: string }> {
    const { cert, key } = chain;
    const server = createServer(
      { cert, key, secureOptions: constants.SSL_OP_NO_TICKET, ...more },
      (request, response) => {
        if (request.url === '/close') response.setHeader('connection', 'close');
        request.pipe(response);
      },
    );
    const listening = new LoopbackServer(server);
    await listening.open();
    ends.push(() => listening.close());
    return { server, url: listening.url };
  }

  function endpointAt(url: string, ca?: string, tenant = 'shop.', connections = 1): Endpoint {
    const allow = [new URL(url).origin];
    const rules = { allow, loopback: true, tenant, handshakes: () => purse };
    const endpoint = new Endpoint(url, keys, { connections, ca, rules });
    ends.push(() => endpoint.close());
    return endpoint;
  }

  const send = (endpoint: Endpoint, body = 'body', timeoutMs = 20_000): Promise<Answer> =>
    endpoint.send({ body, id: 'msg', timeoutMs });

  it('wait while its processor time is used up, as long as the request may', async () => {
    const { server, url } = await serve(ordinary);
    let secured = 0;
    server.on('secureConnection', () => (secured += 1));
    const endpoint = endpointAt(url, ordinary.ca);
    purse.close();
    expect(await send(endpoint, 'body', 200)).toEqual({
      kind: 'refused',
      reason: 'timeout',
      message: 'no connection before the deadline',
    });
    expect(secured).toBe(0);
    const later = send(endpoint);
    purse.open();
    expect(await later).toMatchObject({ kind: 'answered', body: 'body' });
  });

  it('wait in the middle, too, when their first step has used it up', async () => {
    const { server, url } = await serve(ordinary);
    let secured = 0;
    server.on('secureConnection', () => (secured += 1));
    purse.closeAfter = 1;
    const sent = send(endpointAt(url, ordinary.ca));
    await eventually(async () => expect(purse.steps).toBe(2));
    expect(secured).toBe(0);
    purse.open();
    expect(await sent).toMatchObject({ kind: 'answered', body: 'body' });
  });

  it('are paid with all that they cost, however many certificates there are', async () => {
    const { url } = await serve(long);
    const endpoint = endpointAt(`${url}/close`, long.ca);
    // The first one parses the authorities.
    await send(endpoint);
    purse.spentMs = 0;
    const fromMs = threadMs();
    for (let at = 0; at < 10; at += 1) expect(await send(endpoint)).toMatchObject({ kind: 'answered' });
    // The other part is the server's, which runs in this thread, and the requests'.
    expect(purse.spentMs).toBeGreaterThan((threadMs() - fromMs) / 2);
  });

  it('end their chain at the first certificate of the bundle, also if it is no root', async () => {
    const certificates = long.cert.match(/-----BEGIN [^]*?-----END CERTIFICATE-----/g) ?? [];
    expect(certificates).toHaveLength(21);
    const [shown, others] = [certificates.slice(0, 10).join('\n'), certificates.slice(10).join('\n')];
    const { url } = await serve({ ...long, cert: shown });
    const configured = new Endpoint(url, keys, { connections: 1, ca: others });
    ends.push(() => configured.close());
    for (const endpoint of [endpointAt(url, others), configured]) {
      expect(await send(endpoint)).toMatchObject({ kind: 'answered', body: 'body' });
    }
  });

  it('are paid even if the certificates are not trusted', async () => {
    const { url } = await serve(long);
    const endpoint = endpointAt(url, ordinary.ca);
    const fromMs = threadMs();
    for (let at = 0; at < 10; at += 1) {
      expect(await send(endpoint)).toMatchObject({ kind: 'refused', message: expect.stringContaining('certificate') });
    }
    expect(purse.spentMs).toBeGreaterThan((threadMs() - fromMs) / 2);
  });

  it(`are ${AT_ONCE} at a time, so that those of a function without an answer hold up no other tenant`, async () => {
    let greetings = 0;
    const silent = new SocketServer((socket) => {
      socket.on('error', () => {}).once('data', () => (greetings += 1));
    });
    const silentUrl = (await silent.open()).replace('http:', 'https:');
    ends.push(() => silent.close());
    const two = [0, 1].map(() => endpointAt(silentUrl, undefined, 'silent.', AT_ONCE));
    const sent = two.flatMap((each) => Array.from({ length: AT_ONCE }, () => send(each, 'body', 500)));
    await eventually(async () => expect(greetings).toBe(AT_ONCE));
    const { url } = await serve(ordinary);
    expect(await send(endpointAt(url, ordinary.ca, 'bank.'))).toMatchObject({ kind: 'answered' });
    expect(greetings).toBe(AT_ONCE);
    for (const answer of await Promise.all(sent)) expect(answer).toMatchObject({ kind: 'refused', reason: 'timeout' });
  });

  it('end without a connection when the function closes it, and leave room for others', async () => {
    const closing = new SocketServer((socket) => void socket.on('error', () => {}).once('data', () => socket.end()));
    const url = (await closing.open()).replace('http:', 'https:');
    ends.push(() => closing.close());
    const endpoint = endpointAt(url, undefined, 'closed.', AT_ONCE);
    for (let round = 0; round < 3; round += 1) {
      const sent = Array.from({ length: AT_ONCE }, () => send(endpoint));
      for (const answer of await Promise.all(sent)) {
        expect(answer).toMatchObject({ kind: 'refused', reason: 'connection' });
      }
    }
  });

  it('are made once for each connection, which carries large bodies whole', async () => {
    const { server, url } = await serve(ordinary);
    let secured = 0;
    server.on('secureConnection', () => (secured += 1));
    const endpoint = endpointAt(url, ordinary.ca);
    const body = 'x'.repeat(MEBIBYTE);
    for (let at = 0; at < 3; at += 1) {
      const answer = await send(endpoint, body);
      expect(answer.kind === 'answered' && answer.body === body).toBe(true);
    }
    expect(secured).toBe(1);
  });

  it('cut off nothing of a large answer behind which the function closes the connection', async () => {
    const { url } = await serve(ordinary);
    const endpoint = endpointAt(`${url}/close`, ordinary.ca);
    const body = 'x'.repeat(3 * MEBIBYTE);
    for (let at = 0; at < 10; at += 1) {
      const answer = await endpoint.send({
        body,
        id: 'msg',
        timeoutMs: 20_000,
        maxAnswerBytes: 4 * MEBIBYTE,
      });
      expect(answer.kind === 'answered' ? answer.body.length : answer).toBe(body.length);
    }
  });

  it('are not made again on a connection, as often as the function may ask for that', async () => {
    const { server, url } = await serve(ordinary, { maxVersion: 'TLSv1.2' });
    const refused = new Promise<unknown>((resolve) => {
      server.on('secureConnection', (socket: TLSSocket) => {
        socket.on('error', resolve);
        socket.renegotiate({}, (error) => resolve(error ?? 'made again'));
      });
    });
    void send(endpointAt(url, ordinary.ca));
    expect(await refused).toMatchObject({ code: 'ERR_SSL_NO_RENEGOTIATION' });
  });

  it('include session tickets, however many the function sends on an open connection', async () => {
    const flood = new TicketFlood(ordinary);
    const url = await flood.open();
    ends.push(() => flood.close());
    const endpoint = endpointAt(url, ordinary.ca);
    void send(endpoint);
    await eventually(async () => expect(flood.isAsked).toBe(true));
    const { steps } = purse;
    purse.close();
    // The first ones do not wait, but they count.
    await eventually(async () => {
      flood.send(100);
      expect(purse.steps).toBe(steps + 1);
    });
    expect(purse.runs).toBeGreaterThan(steps);
  });
});
