import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Takes spans by OTLP over HTTP, and throws them away: in a process of its own, as a collector is. */
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => response.setHeader('content-type', 'application/json').end('{}'));
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${port}/v1/traces` })}\n`);
});
process.once('SIGTERM', () => process.exit(0));
