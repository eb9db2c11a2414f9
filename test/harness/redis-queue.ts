import { type Clock, type Logger, silentLogger } from '../../src/core/index.ts';
import { connectRedis, type Redis, unlinkAll } from '../../src/ground/redis/redis.ts';
import { BullMqWorkQueue, type WorkQueueOptions } from '../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { queueKeys, type QueueKeys } from '../../src/gateway/controller/workqueue/queue-keys.ts';
import type { QueueOptions } from '../../src/gateway/controller/workqueue/work-queue.ts';
import { uniqueName } from './levelhook.ts';
import { quietRuntime } from './quiet-runtime.ts';

/** One queue in Redis of its own, and any number of gateways on it. */
export class RedisQueueFixture {
  readonly redis: Redis;
  readonly clock: Clock;
  readonly scope = { keyPrefix: uniqueName('test'), clusterId: 'c', name: 'controller' };
  readonly keys: QueueKeys = queueKeys(this.scope, this.scope.name);
  /** Lines of level warn and error: the queue is never in trouble unless a test makes it so. */
  readonly troubles: string[] = [];
  readonly #opened: { queue: BullMqWorkQueue; redis: Redis }[] = [];
  readonly #url: string;
  #concurrency = 0;
  readonly #scripts: Readonly<Record<string, string>>;

  private constructor(url: string, redis: Redis, clock: Clock, scripts: Readonly<Record<string, string>>) {
    this.#url = url;
    this.#scripts = scripts;
    this.redis = redis;
    this.clock = clock;
  }

  /** @param scripts Lua by name, in place of the queue's own: to show what each rule of them is for. */
  static async create(
    url: string,
    clock: Clock,
    scripts: Readonly<Record<string, string>> = {},
  ): Promise<RedisQueueFixture> {
    return new RedisQueueFixture(url, await connectWith(url, scripts), clock, scripts);
  }

  /** One more gateway: with a connection of its own, as in a process of its own. */
  async open(
    options: Partial<QueueOptions> = {},
    { owner, ...more }: Pick<WorkQueueOptions, 'historyRuns' | 'bounds'> & { readonly owner?: string } = {},
  ): Promise<BullMqWorkQueue> {
    const redis = await connectWith(this.#url, this.#scripts);
    const { clock, scope } = this;
    const behaviour = { concurrency: 4, timeoutMs: 15_000, ...options };
    this.#concurrency = behaviour.concurrency;
    const queue = new BullMqWorkQueue({
      name: scope.name,
      behaviour,
      ...more,
      location: { redis, ...scope, owner },
      runtime: quietRuntime({ clock, logger: noting(this.troubles) }),
    });
    this.#opened.push({ queue, redis });
    return queue;
  }

  /** What is to run, now or ever. */
  async pending(): Promise<number> {
    const { timers, debounced, inFlight, backlog, queued, pausedPrefix } = this.keys;
    const paused = (await this.names())
      .filter((name) => name.startsWith('paused:'))
      .map((name) => pausedPrefix + name.slice('paused:'.length));
    const [jobs, ...counts] = await Promise.all([
      this.#jobs(),
      ...[timers, debounced, inFlight, backlog, queued, ...paused].map((set) => this.redis.zcard(set)),
    ]);
    return jobs + counts.reduce((sum, count) => sum + count, 0);
  }

  /** Whether anything still happens for which no time need pass, while `running` runs are in the middle. */
  async unsettled(running: number, lateMs: number): Promise<boolean> {
    if (this.#talking()) return true;
    const { timers, debounced, inFlight, slots } = this.keys;
    const due = await Promise.all(
      [timers, debounced, inFlight].map((set) => this.redis.zcount(set, '-inf', this.clock.now() - lateMs)),
    );
    if (due.some((count) => count > 0)) return true;
    const [held, waiting, active] = await Promise.all([
      this.redis.zcard(slots),
      this.redis.llen(this.keys.waiting),
      this.redis.llen(this.keys.active),
    ]);
    // A job waits only while there is no slot for its keys, or while its gateway waits before it asks again. A slot has
    // a run until the finish is sent.
    const isTaken = held >= this.#concurrency || active > 0 || this.#opened.every(({ queue }) => queue.gate.room === 0);
    const isIdle = held <= running && (waiting === 0 || isTaken);
    return !isIdle || this.#talking();
  }

  /** Deletes all jobs that wait. */
  async loseJobs(): Promise<void> {
    const { redis, keys } = this;
    for (const id of await redis.lrange(keys.waiting, '0', '-1')) await redis.del(keys.bullmqPrefix + id);
    await redis.del(keys.waiting);
  }

  /** Deletes everything of the queue. */
  async lose(): Promise<void> {
    await unlinkAll(this.redis, `${this.keys.prefix}:`);
  }

  /** Of how many keys anything is on record. */
  async records(): Promise<number> {
    return (await this.names()).filter((name) => name.startsWith('key:')).length;
  }

  /** Whether a gateway waits for an answer: its poller is in the middle of a look. */
  #talking(): boolean {
    return this.#opened.some(({ redis }) => {
      const { commandQueue } = redis as unknown as { commandQueue: { length: number } };
      return commandQueue.length > 0;
    });
  }

  /** The number of waiting and active jobs. */
  async #jobs(): Promise<number> {
    const { bullmqPrefix: bullmq, waiting, active } = this.keys;
    const counts = await Promise.all([
      this.redis.llen(waiting),
      this.redis.zcard(`${bullmq}delayed`),
      this.redis.zcard(`${bullmq}prioritized`),
      this.redis.llen(active),
    ]);
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** The names of this queue's keys in Redis, without the common prefix, in order. */
  async names(): Promise<string[]> {
    const { prefix } = this.keys;
    const found: string[] = [];
    for await (const keys of this.redis.scanStream({ match: `${prefix}:*`, count: 1000 }) as AsyncIterable<string[]>) {
      found.push(...keys);
    }
    return [...new Set(found)].map((name) => name.slice(prefix.length + 1)).toSorted();
  }

  async close(): Promise<void> {
    for (const { queue } of this.#opened) await queue.stop(0);
    await this.lose();
    for (const { redis } of this.#opened) redis.disconnect();
    this.redis.disconnect();
  }
}

async function connectWith(url: string, scripts: Readonly<Record<string, string>>): Promise<Redis> {
  const redis = await connectRedis(url);
  for (const [name, lua] of Object.entries(scripts)) redis.defineCommand(`levelhook_${name}`, { lua });
  return redis;
}

export function noting(lines: string[]): Logger {
  const note = (fields: object, message: string): number => lines.push(`${message} ${JSON.stringify(fields)}`);
  return { ...silentLogger, warn: note, error: note, child: () => noting(lines) };
}
