import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

// Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), from which the kernel takes the local port of
// outgoing connections. While a server is down a client that keeps trying could otherwise be given the very port it
// wants to reach: it then connects to itself, and the server cannot bind its port again.
const lowest = 10_000;
const highest = 32_000;

/** A loopback port that was free a moment ago; another process may take it before it is used. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, highest);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
