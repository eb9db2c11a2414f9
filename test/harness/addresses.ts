import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
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

/** What kube-proxy does for a Service with one pod: connections to one port lead to another one. @returns its end. */
export async function forward(
  from: { address: string; port: number },
  to: { address: string; port: number },
): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const pod = connect(to.port, to.address);
    client.pipe(pod).pipe(client);
    for (const socket of [client, pod]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        pod.destroy();
      });
    }
  });
  server.listen(from.port, from.address);
  await once(server, 'listening');
  return async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
}
