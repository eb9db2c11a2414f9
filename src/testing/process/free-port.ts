import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

// Below the ephemeral ports of Linux (from 32768) and macOS (from 49152), where the kernel takes the local ports of
// outgoing connections. Otherwise, while a server is down, a retrying client could get the very port that it wants to
// reach: it would connect to itself, and the server could not bind its port again.
const lowest = 10_000;
const highest = 32_000;

/** A loopback port that is free at this moment. Another process may take it before it is used. */
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
