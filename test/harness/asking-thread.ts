import { once } from 'node:events';
import { connect } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

/** What the client of a thread asks for, and on how many connections at a time. */
export interface AskingOptions {
  readonly url: string;
  readonly count: number;
}

// A thread, so that the test's own watch goes on. Each connection asks again as soon as it has an answer.
const { url, count } = workerData as AskingOptions;
const { hostname: host, pathname, port } = new URL(url);
const request = `GET ${pathname} HTTP/1.1\r\nhost: ${host}\r\n\r\n`;
for (let at = 0; at < count; at += 1) {
  // Linux takes all of 127.0.0.0/8 as addresses of its own.
  const socket = connect({ port: Number(port), host, localAddress: '127.0.0.7' }).on('error', () => {});
  await once(socket, 'connect');
  socket.on('data', () => void socket.write(request)).write(request);
}
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
parentPort?.postMessage('connected');
