import { Redis } from 'ioredis';

import { messageOf } from '../../core/errors.ts';

/** Sends a PING over a connection of its own. Returns the error, or undefined if the server answered. */
export async function ping(url: string): Promise<string | undefined> {
  return once(url, async (redis) => {
    await redis.ping();
    return undefined;
  });
}

/**
 * Whether the server at `url` is the process `pid`, and ready. A foreign server that has taken the port would answer a
 * PING, too.
 */
export async function isServedBy(url: string, pid: number): Promise<boolean> {
  const problem = await once(url, async (redis) => {
    // While the server loads its append-only file, it answers INFO but not PING.
    await redis.ping();
    const info = await redis.info('server');
    return info.split('\r\n').includes(`process_id:${pid}`) ? undefined : 'another process';
  });
  return problem === undefined;
}

async function once(url: string, use: (redis: Redis) => Promise<string | undefined>): Promise<string | undefined> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: 5_000,
    commandTimeout: 5_000,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    retryStrategy: () => null,
  });
  // The command's rejection only says that the connection is closed; this error has the reason.
  let connectionError: unknown;
  redis.on('error', (error: unknown) => {
    connectionError = error;
  });
  try {
    await redis.connect();
    return await use(redis);
  } catch (error) {
    return messageOf(connectionError ?? error);
  } finally {
    redis.disconnect();
  }
}
