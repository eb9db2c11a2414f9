import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { done } from '../../harness/recording-process.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';

/**
 * The queues of a gateway. Arguments: Redis URL, key prefix, how many. Tells the CPU time it has used, every second.
 */
const [url = '', keyPrefix = '', count = '1'] = process.argv.slice(2);
const redis = await connectRedis(url);
for (let at = 0; at < Number(count); at += 1) {
  const queue = new BullMqWorkQueue({
    name: `controller-${at}`,
    behaviour: { concurrency: 10, timeoutMs: 15_000 },
    location: { redis, keyPrefix, clusterId: 'c' },
    runtime: quietRuntime(),
  });
  await queue.start({
    run: (runs) => runs.map(async () => done),
    lost: async () => ({ kind: 'ended', failures: 'count' }),
    passed: async () => true,
    late: () => {},
  });
}
const tell = (fields: object): boolean => process.stdout.write(`${JSON.stringify(fields)}\n`);
tell({ msg: 'started' });
setInterval(() => {
  const { user, system } = process.cpuUsage();
  tell({ cpuMs: (user + system) / 1000, at: machineMs() });
}, 1000);
