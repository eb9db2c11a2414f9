import type { Redis } from 'ioredis';

/**
 * Lets a connection write the commands that are sent in one turn of the event loop, its microtasks included, with one
 * system call, in their order; ioredis makes a call for each. Nothing waits longer than that turn. Redis reads them
 * together, too.
 * @returns the connection itself.
 */
export function groupWrites(redis: Redis): Redis {
  const send = redis.sendCommand;
  let isCorked = false;
  redis.sendCommand = function (command, stream) {
    // The socket of this connection, until it is lost.
    const socket = redis.stream as typeof redis.stream | undefined;
    if (!isCorked && socket?.writable === true) {
      isCorked = true;
      socket.cork();
      process.nextTick(() => {
        isCorked = false;
        socket.uncork();
      });
    }
    return send.call(redis, command, stream);
  };
  return redis;
}
