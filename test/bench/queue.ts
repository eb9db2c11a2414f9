import { startRedis } from '../../src/testing/index.ts';
import { idleGateway } from './queue/idle.ts';
import { bareBullMq, type BenchQueue, ours } from './queue/queues.ts';
import { bytesPerWaitingKey, latencyAt, type Percentiles, runRate, addRate } from './queue/measure.ts';
import { median } from './median.ts';

/**
 * The work queue beside bare BullMQ with the same job options, in one sitting: `npm run bench queue`. Arguments: keys
 * of a throughput round (default 20,000), rounds (5), seconds of a latency round (10). Ratios travel between machines,
 * figures do not.
 */
const [keys = 20_000, rounds = 5, seconds = 10] = process.argv.slice(2).map(Number);
const redis = await startRedis({ ignoreEnvironment: true, onProgress: (line) => process.stderr.write(`${line}\n`) });
const makers = { 'bare BullMQ': bareBullMq, levelhook: ours } as const;
type Name = keyof typeof makers;
const names = Object.keys(makers) as Name[];

/** The same measurement for both, in turn, so that a slow minute of the machine meets both. */
async function compare(
  what: string,
  measure: (queue: BenchQueue) => Promise<number>,
  options = { concurrency: 200 },
): Promise<void> {
  const found: Record<Name, number[]> = { 'bare BullMQ': [], levelhook: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const queue = await makers[name](redis.url, options);
      found[name].push(await measure(queue));
      await queue.close();
    }
  }
  const [bare, own] = [median(found['bare BullMQ']), median(found.levelhook)];
  const text = (value: number): string => Math.round(value).toLocaleString('en').padStart(9);
  console.log(`${what.padEnd(44)}${text(bare)}${text(own)}   ${(own / bare).toFixed(2)}`);
}

const show = ({ p50, p99 }: Percentiles): string => `${p50.toFixed(1)} / ${p99.toFixed(1)}`.padStart(14);

try {
  console.log(`${keys} keys, medians of ${rounds} rounds\n`);
  console.log(`${''.padEnd(44)}${'bare'.padStart(9)}${'levelhook'.padStart(10)}  ratio`);
  await compare('adds/s, one after another', (queue) => addRate(queue, keys / 10, { bulk: 1, inFlight: 1 }));
  await compare('adds/s, 100 in flight', (queue) => addRate(queue, keys, { bulk: 1, inFlight: 100 }));
  await compare('adds/s, 500 at a time', (queue) => addRate(queue, keys, { bulk: 500, inFlight: 1 }));
  for (const concurrency of [1, 10, 50, 200]) {
    const count = concurrency === 1 ? keys / 4 : keys;
    await compare(`no-op runs/s, concurrency ${concurrency}`, (queue) => runRate(queue, count), { concurrency });
  }
  await compare('bytes in Redis for each waiting key', (queue) => bytesPerWaitingKey(queue, redis.url, keys));
  console.log('\nms from add to start, p50 / p99');
  for (const perSecond of [20, 1000, 3000]) {
    const found: string[] = [];
    for (const name of names) {
      const queue = await makers[name](redis.url, { concurrency: 50 });
      found.push(show(await latencyAt(queue, perSecond, seconds)));
      await queue.close();
    }
    console.log(`${`${perSecond} a second`.padEnd(38)}${found.join('')}`);
  }
  console.log(`\nidle, 50 controllers: ${await idleGateway(redis.url, 50, seconds)}`);
} finally {
  await redis.stop();
}
