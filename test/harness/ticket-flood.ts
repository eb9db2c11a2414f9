import { createCipheriv, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import type { CertificateChain } from './certificate-chain.ts';
import { SocketServer } from './socket-server.ts';

/** The tickets of a server of Node, which come first. */
const OWN_TICKETS = 2;
/** A session ticket of TLS 1.3 (RFC 8446, 4.6.1), as short as one may be. */
const TICKET = Buffer.from([4, 0, 0, 14, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 1, 7, 0]);
const HANDSHAKE = 22;
const APPLICATION_DATA = 23;

/** A function by https that answers no request. It sends session tickets instead, as many as it is asked for. */
export class TicketFlood {
  readonly #tls: ReturnType<typeof createServer>;
  readonly #door: SocketServer;
  #secret = '';
  #client: Socket | undefined;
  #server: Socket | undefined;
  #inner: Socket | undefined;
  #isAsked = false;
  #sent = OWN_TICKETS;

  constructor({ cert, key }: CertificateChain) {
    const ciphers = 'TLS_AES_128_GCM_SHA256';
    this.#tls = createServer({ cert, key, ciphers, minVersion: 'TLSv1.3' }, (socket) => {
      socket.on('error', () => {}).once('data', () => (this.#isAsked = true));
    });
    this.#tls.on('connection', (socket) => (this.#server = socket));
    this.#tls.on('keylog', (line: Buffer) => {
      const [label, , secret = ''] = String(line).trim().split(' ');
      if (label === 'SERVER_TRAFFIC_SECRET_0') this.#secret = secret;
    });
    this.#door = new SocketServer((client) => {
      this.#client = client;
      const inner = connect((this.#tls.address() as AddressInfo).port, '127.0.0.1');
      this.#inner = inner;
      client
        .on('error', () => {})
        .pipe(inner)
        .on('error', () => {})
        .pipe(client);
    });
  }

  /** @returns its URL. */
  async open(): Promise<string> {
    this.#tls.listen(0, '127.0.0.1');
    await once(this.#tls, 'listening');
    return (await this.#door.open()).replace('http:', 'https:');
  }

  /** Whether it has a request, and the server's own tickets are on their way. */
  get isAsked(): boolean {
    return this.#isAsked && this.#inner?.bytesRead === this.#server?.bytesWritten;
  }

  /** Sends tickets on the connection. */
  send(count: number): void {
    this.#client?.write(Buffer.concat(Array.from({ length: count }, () => this.#record())));
  }

  close(): void {
    this.#door.close();
    this.#tls.close();
  }

  #record(): Buffer {
    const nonce = expand(this.#secret, 'iv', 12);
    nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ this.#sent) >>> 0, 8);
    this.#sent += 1;
    const length = TICKET.length + 1 + 16;
    const head = Buffer.from([APPLICATION_DATA, 3, 3, length >> 8, length & 255]);
    const cipher = createCipheriv('aes-128-gcm', expand(this.#secret, 'key', 16), nonce).setAAD(head);
    const text = Buffer.concat([cipher.update(TICKET), cipher.update(Buffer.from([HANDSHAKE])), cipher.final()]);
    return Buffer.concat([head, text, cipher.getAuthTag()]);
  }
}

/** HKDF-Expand-Label (RFC 8446, 7.1) for at most one hash. */
function expand(secret: string, label: string, length: number): Buffer {
  const name = Buffer.from(`tls13 ${label}`);
  const info = Buffer.concat([Buffer.from([0, length, name.length]), name, Buffer.from([0, 1])]);
  return createHmac('sha256', Buffer.from(secret, 'hex')).update(info).digest().subarray(0, length);
}
