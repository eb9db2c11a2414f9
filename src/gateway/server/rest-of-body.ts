import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Reads a body to its end, and drops it, when the request was answered before: a client may still be sending it, and
 * its next request comes on the same connection. A connection that is closed meanwhile takes that request with it, and
 * the client cannot know what became of it. How long a request may take to arrive is bounded by the server.
 */
export function readRest(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once('finish', () => incoming.resume());
}
