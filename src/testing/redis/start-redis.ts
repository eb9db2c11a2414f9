import { join } from 'node:path';

import { systemClock } from '../../core/clock.ts';
import { UserError } from '../../core/errors.ts';
import { freePort } from '../process/free-port.ts';
import { endedError, ManagedProcess, portWasTaken, type ProcessSpec } from '../process/managed-process.ts';
import { ownDirectory } from '../process/own-directory.ts';
import { ProcessRecord } from '../process/process-record.ts';
import { externalRedis } from './external-redis.ts';
import { findRedis } from './find-redis.ts';
import { isServedBy } from './ping.ts';
import type { RedisServer, StartRedisOptions } from './redis-server.ts';

const readyWithinMs = 30_000;
const pollMs = 20;

/**
 * A Redis server: the server of REDIS_URL if it is set, else a `redis-server` or `valkey-server` from PATH, started on
 * a loopback port. If PATH has none, it is installed with apt-get, if apt-get exists and this process is root.
 *
 * Throws `UserError` when REDIS_URL does not answer a PING, when there is no server to start, or when it ends at once.
 */
export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const env = options.env ?? process.env;
  const url = options.ignoreEnvironment ? undefined : env['REDIS_URL'];
  if (url) return externalRedis(url);

  const command = await findRedis(env, options.onProgress);
  const directory = await ownDirectory(options.directory, 'levelhook-redis-');
  const record = new ProcessRecord(directory.path);
  const spec = (port: number): ProcessSpec => ({
    name: 'redis-server',
    command,
    args: redisArguments(port, directory.path, options.appendOnly ?? false),
    directory: directory.path,
    logFile: join(directory.path, 'redis.log'),
  });

  let port = options.port ?? (await freePort());
  const startFirst = async (): Promise<ManagedProcess> => {
    try {
      return await startUntilReady(spec(port), port, record);
    } catch (error) {
      if (options.port !== undefined || !portWasTaken(spec(port))) throw error;
      port = await freePort();
      return startUntilReady(spec(port), port, record);
    }
  };
  let running: ManagedProcess;
  try {
    running = await startFirst();
  } catch (error) {
    // A temporary directory stays, with its log.
    if (options.directory !== undefined) await directory.release();
    throw error;
  }

  let starting: Promise<void> | undefined;
  const startAgain = async (): Promise<void> => {
    running = await startUntilReady(spec(port), port, record);
  };
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await starting?.catch(() => {});
    await running.stop();
    await directory.release();
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    managed: true,
    get pid() {
      return running.alive ? running.pid : undefined;
    },
    kill: (signal = 'SIGKILL') => running.kill(signal),
    async start() {
      if (stopping) throw new UserError('This Redis was stopped for good: start another one');
      if (!running.alive) starting ??= startAgain().finally(() => (starting = undefined));
      await starting;
    },
    stop: () => (stopping ??= stop()),
  };
}

function redisArguments(port: number, directory: string, appendOnly: boolean): string[] {
  const settings = {
    port: String(port),
    bind: '127.0.0.1',
    dir: directory,
    // No snapshots: a test that needs lasting data asks for the append-only file.
    save: '',
    appendonly: appendOnly ? 'yes' : 'no',
    appendfsync: 'everysec',
    daemonize: 'no',
  };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}

async function startUntilReady(spec: ProcessSpec, port: number, record: ProcessRecord): Promise<ManagedProcess> {
  const running = await ManagedProcess.start(spec, record);
  const end = systemClock.now() + readyWithinMs;
  const ended = running.ended.then(() => false);
  while (!(await Promise.race([isServedBy(`redis://127.0.0.1:${port}`, running.pid), ended]))) {
    if (!running.alive) throw endedError(spec);
    if (systemClock.now() > end) {
      await running.stop();
      throw new UserError(`redis-server does not answer after ${readyWithinMs / 1_000} s; its log is ${spec.logFile}`);
    }
    await systemClock.sleep(pollMs);
  }
  return running;
}
