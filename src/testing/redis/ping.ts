import { Redis } from 'ioredis';

import { messageOf } from '../../core/errors.ts';

/** Sends a PING over a connection of its own. Returns what went wrong, or undefined if the server answered. */
export async function ping(url: string): Promise<string | undefined> {
  return once(url, async (redis) => {
    await redis.ping();
    return undefined;
  });
}

/**
 * Whether the server at `url` is the process `pid`, and ready. A PING alone would be answered just as well by the
 * foreign server that has taken the port.
 */
export async function isServedBy(url: string, pid: number): Promise<boolean> {
  const problem = await once(url, async (redis) => {
    // While it reads its append-only file, INFO is answered but PING is not.
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
  // The command's rejection says only that the connection is closed; this one says why.
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
