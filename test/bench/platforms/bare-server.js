import { createServer } from 'node:http';

/** The least that answers on Node: what the cold start of a function is compared with. */
const server = createServer((incoming, outgoing) => {
  incoming.resume().on('end', () => outgoing.end('{"results":[{"status":"done"}]}'));
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` })}\n`);
});
