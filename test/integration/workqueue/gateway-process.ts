import { randomOf } from '../../harness/random.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { HistoryProcess } from './history-process.ts';

/**
 * A gateway's half of a queue as a process of its own: it runs keys until it is killed, and writes each run as a line.
 * Arguments: Redis URL, scope of the queue as JSON, options as JSON (see `GatewayOptions`).
 */
const [url = '', scope = '', given = ''] = process.argv.slice(2);
const options = JSON.parse(given) as { seed: number; concurrency: number; timeoutMs: number; mode: 'history' | 'hang' };
const { concurrency, timeoutMs } = options;
const redis = await connectRedis(url);
const { name, ...cluster } = JSON.parse(scope) as { keyPrefix: string; clusterId: string; name: string };
const queue = new BullMqWorkQueue({
  name,
  behaviour: { concurrency, timeoutMs },
  location: { redis, ...cluster },
  runtime: quietRuntime(),
});
const line = (fields: object): boolean => process.stdout.write(`${JSON.stringify(fields)}\n`);
if (options.mode === 'history') {
  await queue.start(new HistoryProcess(randomOf(options.seed), (event) => line(event)));
} else {
  await queue.start({
    run: (runs) =>
      runs.map(({ key, run, deadlineMs }) => {
        line({ key, run, deadlineMs });
        return new Promise(() => {});
      }),
    lost: async ({ key, run }) => {
      line({ lost: key, run });
      return { kind: 'ended', failures: 'count', againAfterMs: 0 };
    },
    passed: async () => true,
    late: () => {},
  });
}
line({ msg: 'started' });
