/** What of a connection of ioredis is needed. */
interface Connection {
  readonly stream: { readonly writable: boolean; cork(): void; uncork(): void };
  sendCommand(...sent: never[]): unknown;
}

/**
 * Lets a connection write the commands that are sent in one turn of the event loop, its microtasks included, with one
 * system call, in their order; ioredis makes a call for each. Nothing waits longer than that turn. Redis reads them
 * together, too.
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
      process.nextTick(() => {
        isCorked = false;
        socket.uncork();
      });
    }
    return send(...sent);
  };
  return redis;
}
