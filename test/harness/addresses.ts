import { execFileSync } from 'node:child_process';
import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import type { Started } from './started.ts';

let count = 0;

/**
 * An IP address of its own for a pod or a Service, on the interface of loopback: no other machine reaches it, and a
 * gateway does not count it as loopback. Needs root and iproute2. It is removed at the end.
 */
export function ownAddress(started: Started): string {
  count += 1;
  const address = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 256}.${count}`;
  execFileSync('ip', ['address', 'add', `${address}/32`, 'dev', 'lo']);
  started.add(async () => void execFileSync('ip', ['address', 'del', `${address}/32`, 'dev', 'lo']));
  return address;
}

/** What kube-proxy does for a Service with one pod: connections to one port lead to another one. */
export async function forward(
  started: Started,
  from: { address: string; port: number },
  to: { address: string; port: number },
): Promise<void> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    const pod = connect(to.port, to.address);
    for (const [one, other] of [
      [client, pod],
      [pod, client],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(from.port, from.address);
  await once(server, 'listening');
  started.add(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
}
