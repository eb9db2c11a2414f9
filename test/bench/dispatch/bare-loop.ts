import { randomUUID } from 'node:crypto';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool } from 'undici';
import { importSecret, sign } from '../../../src/contract/index.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import type { Line, LineOptions } from './line.ts';

/**
 * The plain code with BullMQ and undici, signing included, and nothing else: no record of runs, no backoff,
 * no requeue, no barrier, no deadline for a run whose answer never comes.
 */
export async function bareLoop({ redisUrl, functionUrl, secret, concurrency, onDone }: LineOptions): Promise<Line> {
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const prefix = `{${uniqueName('bare')}}`;
  const options = { connection, prefix, streams: { events: { maxLen: 100 } } };
  const queue = new Queue<{ key: string }>('bench', options);
  const pool = new Pool(functionUrl, { connections: concurrency, pipelining: 1 });
  const keys = [await importSecret(secret)];
  let worker: Worker | undefined;

  async function work(key: string): Promise<void> {
    const [namespace, name = ''] = key.split('/');
    const body = JSON.stringify({
      version: 'v1',
      controller: 'bench',
      deadline: new Date(Date.now() + 15_000).toISOString(),
      remainingSeconds: 15,
      cache: { views: {} },
      requests: [{ namespace, name, attempt: 1, run: 1, reasons: [] }],
    });
    const headers = await sign(keys, { id: randomUUID(), nowMs: Date.now(), body });
    const answer = await pool.request({ method: 'POST', path: '/', headers: { ...headers }, body });
    const outcome = (await answer.body.json()) as { results: { status: string }[] };
    if (outcome.results[0]?.status !== 'done') throw new Error(`the function answered ${answer.statusCode}`);
    onDone(key);
  }

  return {
    name: 'bare BullMQ and undici',
    add: async (names) => {
      const opts = (key: string) => ({
        removeOnComplete: true,
        removeOnFail: true,
        deduplication: { id: key, keepLastIfActive: true },
      });
      await queue.addBulk(names.map((key) => ({ name: 'reconcile', data: { key }, opts: opts(key) })));
    },
    start: async () => {
      worker = new Worker('bench', (job) => work((job.data as { key: string }).key), {
        connection,
        prefix,
        concurrency,
      });
      worker.on('failed', (_job, error) => process.stderr.write(`${error.message}\n`));
      await worker.waitUntilReady();
    },
    stop: async () => {
      await worker?.close();
      await queue.obliterate({ force: true });
      await queue.close();
      await pool.close();
      connection.disconnect();
    },
  };
}
