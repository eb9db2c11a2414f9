import { connect } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';

/** The stranger of a thread: it opens and closes connections of TLS as fast as it can, this many at a time. */
export interface HandshakesOptions {
  readonly port: number;
  /** From which it comes. */
  readonly address: string;
  readonly count: number;
}

/** The connections of the stranger so far. */
export interface Handshakes {
  /** All connections. Refused ones count. */
  readonly tries: number;
  /** Connections with an answer to the stranger's first message, which is the expensive part of a handshake. */
  readonly answered: number;
  /** Since before the first try. */
  readonly elapsedMs: number;
}

/** The first byte of a message of a handshake. */
const HANDSHAKE = 0x16;

const { port, address, count } = workerData as HandshakesOptions;

/** The first message of a client. It is sent again and again, so that the stranger itself computes nothing. */
async function firstMessage(): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = new Duplex({ read: () => {}, write: (chunk: Buffer) => resolve(chunk) });
    connectTls({ socket, rejectUnauthorized: false });
  });
}

const hello = await firstMessage();
const beganMs = performance.now();
let tries = 0;
let answered = 0;

async function shakeHands(): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: address }).on('error', () => {});
  socket.write(hello);
  socket.once('data', (data) => {
    if (data[0] === HANDSHAKE) answered += 1;
    socket.destroy();
  });
  // `once` of node:events would reject with the error of a refused connection.
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  tries += 1;
}

async function repeat(): Promise<never> {
  for (;;) await shakeHands();
}

for (let at = 0; at < count; at += 1) void repeat();
setInterval(() => {
  const done: Handshakes = { tries, answered, elapsedMs: performance.now() - beganMs };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort?.postMessage(done);
}, 100);
