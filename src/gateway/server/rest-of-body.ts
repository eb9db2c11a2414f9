import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Reads a body to its end, and drops it, when the request was answered before: a client may still be sending it, and
 * its next request comes on the same connection. A connection that is closed meanwhile takes that request with it, and
 * the client cannot know what became of it. How long a request may take to arrive is bounded by the server.
 */
export function readRest(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once('finish', () => {
    // A web stream over the body listens, and pauses it again when it has as much as it keeps. Node does the same for a
    // body that has no reader.
    incoming.removeAllListeners('data');
    incoming.resume();
  });
}
