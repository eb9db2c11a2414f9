import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { untilWritten } from './redis-written.ts';
import type { Started } from './started.ts';

/** A Redis with an append-only file that is synced once a second, and that loses its last writes when it is killed. */
export class ForgetfulRedis {
  readonly url: string;
  readonly #server: RedisServer;
  readonly #folder: string;
  readonly #connection: Redis;

  private constructor(server: RedisServer, folder: string, connection: Redis) {
    this.url = server.url;
    this.#server = server;
    this.#folder = folder;
    this.#connection = connection;
  }

  static async start(started: Started): Promise<ForgetfulRedis> {
    const directory = await started.directory();
    const server = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
    started.add(() => server.stop());
    const connection = new Redis(server.url, { maxRetriesPerRequest: null });
    connection.on('error', () => {});
    started.add(async () => connection.disconnect());
    return new ForgetfulRedis(server, join(directory, 'appendonlydir'), connection);
  }

  /** How long the file is with all that Redis has answered. */
  async written(): Promise<number> {
    await untilWritten(this.#connection);
    return (await stat(await this.#file())).size;
  }

  /**
   * @param length of the file that the next process finds: see `written`.
   * @param onKilled called before the next process starts.
   */
  async restart(length: number, onKilled = (): void => {}): Promise<void> {
    await this.#server.kill('SIGKILL');
    onKilled();
    await truncate(await this.#file(), length);
    await this.#server.start();
  }

  async #file(): Promise<string> {
    const name = (await readdir(this.#folder)).find((each) => each.endsWith('.incr.aof'));
    return join(this.#folder, name ?? '');
  }
}
