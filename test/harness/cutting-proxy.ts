import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * A TCP proxy on loopback before an apiserver that breaks all its connections every few seconds, as a load balancer or a
 * network on a bad day does. TLS goes through it: the apiserver's certificate is for 127.0.0.1, whatever the port.
 *
 * `cutting-proxy.ts https://127.0.0.1:PORT <ms between cuts>`; SIGUSR2 ends the cuts, and it tells how many there were. A
 * program of its own: in a busy process it would be read slowly, and the apiserver end the watches by itself.
 */
const [, , server = '', everyMs = '3000'] = process.argv;
const { hostname: host, port } = new URL(server);
const sockets = new Set<Socket>();
const tell = (what: object): boolean => process.stdout.write(`${JSON.stringify(what)}\n`);

const proxy = createServer((inside) => {
  const outside = connect({ host, port: Number(port) });
  for (const [socket, other] of [
    [inside, outside],
    [outside, inside],
  ] as const) {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
    socket.pipe(other);
  }
});
let cuts = 0;
const timer = setInterval(() => {
  cuts += 1;
  for (const socket of sockets) socket.resetAndDestroy();
}, Number(everyMs));
process.on('SIGUSR2', () => {
  clearInterval(timer);
  tell({ msg: 'healed', cuts });
});
proxy.listen(0, '127.0.0.1', () => {
  tell({ msg: 'listening', url: `https://127.0.0.1:${(proxy.address() as AddressInfo).port}` });
});
