import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Reads a body to its end, and drops it, when the request was answered before: a client may still be sending it, and
 * its next request comes on the same connection. If the connection closed now, that next request would be lost with it,
 * and the client could not know whether the gateway had handled it. The server bounds how long a request may take to
 * arrive.
 */
export function readRest(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once('finish', () => {
    // A web stream over the body listens, and pauses it again when it has as much as it keeps. Node does the same for a
    // body that has no reader.
    incoming.removeAllListeners('data');
    incoming.resume();
  });
}
