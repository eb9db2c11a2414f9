import type { IncomingMessage, ServerResponse } from 'node:http';
import { isScattered } from '../../../core/index.ts';

const REFUSAL = [
  'HTTP/1.1 400 Bad Request',
  'Connection: close',
  'Content-Type: text/plain',
  '',
  'the request comes in more than 256 chunks of less than 256 bytes\n',
].join('\r\n');

/**
 * Refuses a request whose body comes in too many small chunks, before a handler reads it. Node keeps 64 KiB of a body
 * until then, for as long as the handler waits for something else, and in chunks of one byte these take 14 MiB. A
 * listener of `request`, before all others.
 */
export function refuseScattered(incoming: IncomingMessage, outgoing: ServerResponse): void {
  const { socket } = incoming;
  const push = incoming.push.bind(incoming);
  let [bytes, chunks] = [0, 0];
  // The parser gives each chunk to it. `data` would begin to read.
  incoming.push = (chunk: Uint8Array | null, encoding) => {
    if (chunk === null) return push(chunk, encoding);
    bytes += chunk.length;
    chunks += 1;
    if (!isScattered(chunks, bytes)) return push(chunk, encoding);
    // As Node refuses a request that it cannot parse.
    if (socket.writable && !outgoing.headersSent) socket.write(REFUSAL);
    socket.destroy();
    return false;
  };
}
