import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Of a body that nobody needs: the largest that is refused only when it has come, and what a client has sent by then.
 */
const MOST_BYTES = 16 * 1024 * 1024;
const LOOK_MS = 100;

/**
 * Reads a body to its end, and drops it, when the request was answered before: a client may still be sending it, and
 * its next request comes on the same connection. If the connection closed now, that next request would be lost with it,
 * and the client could not know whether the gateway had handled it. The server bounds how long a request may take to
 * arrive, and a body of more than 16 MiB after the answer loses its connection: to read it costs this thread.
 */
export function readRest(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once('finish', () => {
    // A web stream over the body listens, and pauses it again when it has as much as it keeps. Node does the same for a
    // body that has no reader.
    incoming.removeAllListeners('data');
    incoming.resume();
    if (!incoming.complete) boundRest(incoming);
  });
}

function boundRest(incoming: IncomingMessage): void {
  const { socket } = incoming;
  const from = socket.bytesRead;
  // Node drops what it receives for a body without a reader, and says nothing of it.
  const timer = setInterval(() => {
    if (incoming.complete || socket.destroyed) clearInterval(timer);
    else if (socket.bytesRead - from > MOST_BYTES) socket.destroy();
  }, LOOK_MS);
}
