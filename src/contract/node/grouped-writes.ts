// Not the global one: an author's test may have replaced it by a fake timer.
import { setImmediate } from 'node:timers';

/** The needed part of an ioredis connection. */
interface Connection {
  readonly stream: { readonly writable: boolean; cork(): void; uncork(): void };
  sendCommand(...sent: never[]): unknown;
}

/**
 * Makes a connection write all commands of one round of the event loop with one system call, in their order; ioredis
 * makes a call for each. A round reads all sockets that have data, so a busy process writes less often, and an idle one
 * does not wait: the round ends when there is nothing more to read. Redis reads the commands together, too.
 * @param redis a connection of ioredis.
 * @returns the connection itself.
 */
export function groupWrites<T extends Connection>(redis: T): T {
  const send = redis.sendCommand.bind(redis);
  let isCorked = false;
  redis.sendCommand = (...sent) => {
    // The socket of this connection, until it is lost. Undefined before the first.
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
