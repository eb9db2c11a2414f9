import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { UserError } from '../../../src/core/index.ts';
import { type RedisServer, startRedis, stopLeftovers } from '../../../src/testing/index.ts';
import { startTimeOf } from '../../../src/testing/process/process-identity.ts';
import { eventually } from '../../harness/eventually.ts';
import { untilWritten } from '../../harness/redis-written.ts';

const own = { ignoreEnvironment: true };
const started: RedisServer[] = [];

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

async function start(options: Parameters<typeof startRedis>[0]): Promise<RedisServer> {
  const server = await startRedis(options);
  started.push(server);
  return server;
}

async function withClient<T>({ url }: RedisServer, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

describe('startRedis', () => {
  it('keeps its data when it is killed and started again with an append-only file', async () => {
    const server = await start({ ...own, appendOnly: true });
    await withClient(server, async (redis) => {
      await redis.set('key', 'kept');
      // A killed process loses nothing that is written; a killed machine loses what is not synced.
      await untilWritten(redis);
    });
    const before = server.pid;
    await server.kill();
    expect(server.pid).toBeUndefined();
    await server.start();
    expect(server.pid).not.toBe(before);
    expect(await withClient(server, (redis) => redis.get('key'))).toBe('kept');
  });

  it('keeps nothing without one', async () => {
    const server = await start(own);
    await withClient(server, (redis) => redis.set('key', 'lost'));
    await server.kill('SIGTERM');
    await Promise.all([server.start(), server.start()]);
    expect(await withClient(server, (redis) => redis.get('key'))).toBeNull();
  });

  it('can be put to sleep and woken', async () => {
    const server = await start(own);
    await server.kill('SIGSTOP');
    const answer = withClient(server, (redis) => redis.ping());
    expect(await Promise.race([answer, sleep(200, 'asleep')])).toBe('asleep');
    await server.kill('SIGCONT');
    expect(await answer).toBe('PONG');
  });

  it('listens on loopback alone', async () => {
    const server = await start(own);
    expect(server.url).toBe(`redis://127.0.0.1:${server.port}`);
    const bound = await withClient(server, (redis) => redis.config('GET', 'bind'));
    expect(bound).toEqual(['bind', '127.0.0.1']);
  });

  it('leaves no process and no directory when it is stopped, twice', async () => {
    const server = await start(own);
    const directory = await withClient(server, (redis) => redis.config('GET', 'dir'));
    const { pid } = server;
    await Promise.all([server.stop(), server.stop()]);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(existsSync(String(Array.isArray(directory) && directory[1]))).toBe(false);
    await expect(server.start()).rejects.toThrow(UserError);
  });

  it('reports a port that is taken with the end of its log', async () => {
    const { port } = await start(own);
    const directory = await mkdtemp(join(tmpdir(), 'levelhook-redis-test-'));
    await expect(startRedis({ ...own, port, directory })).rejects.toThrow(
      /^redis-server ended; its log .*redis\.log ends: .*/,
    );
    await rm(directory, { recursive: true });
  });
});

describe('what becomes of a server when its parent ends without stopping it', () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'levelhook-redis-test-'));
  });

  afterEach(async () => {
    await stopLeftovers(directory);
    await rm(directory, { recursive: true });
  });

  /** Starts a server in a Node process of its own, which then ends as `end` says. Returns the server's pid. */
  async function startIn(end: string): Promise<number> {
    const testing = new URL('../../../src/testing/index.ts', import.meta.url).href;
    const script = `
      const { startRedis } = await import(${JSON.stringify(testing)});
      const { pid } = await startRedis({ ignoreEnvironment: true, directory: ${JSON.stringify(directory)} });
      require('node:fs').writeSync(1, String(pid));
      ${end}`;
    const child = spawn(process.execPath, ['--conditions=levelhook-source', '-e', `(async () => {${script}})()`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const pid = await text(child.stdout);
    return Number(pid);
  }

  it('ends with a parent that throws', async () => {
    const pid = await startIn('throw new Error("not caught");');
    expect(pid).toBeGreaterThan(1);
    await eventually(async () => expect(startTimeOf(pid)).toBeUndefined());
  });

  it('outlives a parent that is killed, until the leftovers are stopped', async () => {
    const pid = await startIn('process.kill(process.pid, "SIGKILL");');
    expect(startTimeOf(pid)).toBeDefined();
    expect(await stopLeftovers(directory)).toEqual(['redis-server']);
    expect(startTimeOf(pid)).toBeUndefined();
  });
});

describe('startRedis with REDIS_URL', () => {
  it('uses that server and leaves it running', async () => {
    const server = await start(own);
    const external = await startRedis({ env: { REDIS_URL: server.url } });
    expect(external).toMatchObject({ url: server.url, port: server.port, managed: false, pid: undefined });
    await external.stop();
    await expect(external.kill()).rejects.toThrow(UserError);
    expect(server.pid).toBeDefined();
  });

  it('says so when it does not answer, without the password', async () => {
    const server = await start(own);
    await server.kill();
    const failed = startRedis({ env: { REDIS_URL: `redis://:secret@127.0.0.1:${server.port}` } });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(
      `The Redis of REDIS_URL at 127.0.0.1:${server.port} does not answer: connect ECONNREFUSED 127.0.0.1:${server.port}`,
    );
  });

  it('refuses what is no URL', async () => {
    await expect(startRedis({ env: { REDIS_URL: 'localhost:6379' } })).rejects.toThrow(/REDIS_URL must look like/);
  });
});
