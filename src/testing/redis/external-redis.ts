import { UserError } from '../../core/errors.ts';
import { ping } from './ping.ts';
import type { RedisServer } from './redis-server.ts';

/** The server of REDIS_URL, which the caller starts and stops. Throws `UserError` unless it answers a PING. */
export async function externalRedis(url: string): Promise<RedisServer> {
  if (!/^rediss?:/.test(url) || !URL.canParse(url)) {
    throw new UserError('REDIS_URL must look like redis://HOST:PORT or rediss://HOST:PORT');
  }
  const { hostname, port } = new URL(url);
  const problem = await ping(url);
  // The whole URL may hold a password.
  if (problem !== undefined) {
    throw new UserError(`The Redis of REDIS_URL at ${hostname}:${port || 6379} does not answer: ${problem}`);
  }
  return {
    url,
    port: Number(port || 6379),
    pid: undefined,
    managed: false,
    stop: async () => {},
    kill: refuse,
    start: refuse,
  };
}

function refuse(): Promise<never> {
  return Promise.reject(
    new UserError('The Redis of REDIS_URL is not ours to kill or start: pass ignoreEnvironment: true'),
  );
}
