// Not the global one: an author's test may have replaced it by a timer that stands still.
import { setImmediate } from 'node:timers';

/** What of a connection of ioredis is needed. */
interface Connection {
  readonly stream: { readonly writable: boolean; cork(): void; uncork(): void };
  sendCommand(...sent: never[]): unknown;
}

/**
 * Lets a connection write the commands that are sent in one round of the event loop with one system call, in their
 * order; ioredis makes a call for each. In a round, all sockets are read that have something to read, so a busy process
 * writes less often, and an idle one does not wait: the round ends once there is nothing to read. Redis reads the
 * commands together, too.
 * @param redis a connection of ioredis.
 * @returns the connection itself.
 */
export function groupWrites<T extends Connection>(redis: T): T {
  const send = redis.sendCommand.bind(redis);
  let isCorked = false;
  redis.sendCommand = (...sent) => {
    // The socket of this connection, until it is lost; none before the first.
    const socket = redis.stream as T['stream'] | undefined;
    if (!isCorked && socket?.writable === true) {
      isCorked = true;
      socket.cork();
      setImmediate(() => {
        isCorked = false;
        socket.uncork();
      });
    }
    return send(...sent);
  };
  return redis;
}
