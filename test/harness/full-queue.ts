import { redisRunId } from '../../src/gateway/informer/cache/incarnation.ts';
import type { Redis } from '../../src/ground/redis/redis.ts';
import { BullMqWorkQueue } from '../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import type { Finish } from '../../src/gateway/controller/workqueue/run.ts';
import { quietRuntime } from './quiet-runtime.ts';

/** What a queue holds after `fillQueue`. The namespace of all keys is `busy`. */
export interface QueueContents {
  /** Keys `busy/run-N`, each with one run in good health, in the history. */
  readonly runs: number;
  /** Of these, each so-many-th run has failed instead, with an error of 1 KiB, and waits for an hour. Default: none. */
  readonly failsEvery?: number;
  /** Dead letters `busy/dead-N`, with errors of seven kinds. */
  readonly dead: number;
  /** Keys `busy/paused-N` that wait for the end of the controller's pause. */
  readonly paused: number;
  /** Keys `busy/low-N` that wait at low priority, for the end of the same pause. */
  readonly low: number;
}

const BATCH = 500;
const LONG = 'the quota of this namespace is used up, and the object cannot be written: '.repeat(20);

/**
 * Fills the queue of a controller by the queue itself, as a gateway does: each run and dead letter has really been one.
 * Afterwards the controller is paused. Call it before a gateway starts the controller.
 * @param of the cluster that the gateway works for.
 */
export async function fillQueue(
  of: { readonly redis: Redis; readonly keyPrefix: string; readonly clusterId: string },
  name: string,
  { runs, failsEvery = 0, dead, paused, low }: QueueContents,
): Promise<void> {
  const queue = new BullMqWorkQueue({
    name,
    behaviour: { concurrency: 200, timeoutMs: 15_000 },
    location: of,
    runtime: quietRuntime(),
  });
  const ends = new Counter();
  await queue.start({
    run: (runs) =>
      runs.map(async ({ key }) => {
        ends.add();
        return finishOf(key, failsEvery);
      }),
    lost: async () => ({ kind: 'ended', failures: 'count' }),
    passed: async () => true,
    late: () => {},
  });
  const add = async (stem: string, count: number): Promise<void> => {
    for (let from = 0; from < count; from += BATCH) {
      const keys = Array.from({ length: Math.min(BATCH, count - from) }, (_, at) => `busy/${stem}-${from + at}`);
      await queue.add(
        keys.map((key) => ({
          key,
          reasons: [{ type: 'updated', object: `v1/Pod ${key}`, resourceVersion: '123456' }],
        })),
      );
    }
  };
  await add('dead', dead);
  await add('run', runs);
  await ends.reaches(dead + runs);
  await queue.pause('controller');
  await add('paused', paused);
  for (let from = 0; from < low; from += BATCH) {
    const keys = Array.from({ length: Math.min(BATCH, low - from) }, (_, at) => `busy/low-${from + at}`);
    await queue.addLow(keys, 'resync');
  }
  // To a gateway the queue has lost nothing.
  await queue.record.renew(await redisRunId(of.redis));
  await queue.stop(10_000);
}

function finishOf(key: string, failsEvery: number): Finish {
  const number = Number(key.slice(key.lastIndexOf('-') + 1));
  if (key.startsWith('busy/dead-')) {
    const error = `cause ${'abcdefg'[number % 7]}: object ${key} has ${number} errors`;
    return { kind: 'ended', failures: 'count', dead: true, error };
  }
  if (failsEvery > 0 && number % failsEvery === 0) {
    return { kind: 'ended', failures: 'count', againAfterMs: 3_600_000, error: `${LONG} ${number}` };
  }
  const first = [{ object: `v1/ConfigMap ${key}`, resourceVersion: '654321' }];
  return { kind: 'ended', failures: 'forget', wrote: { count: 1, first } };
}

class Counter {
  #count = 0;
  #wanted = Infinity;
  #reached = Promise.withResolvers<void>();

  add(): void {
    this.#count += 1;
    if (this.#count >= this.#wanted) this.#reached.resolve();
  }

  reaches(wanted: number): Promise<void> {
    this.#wanted = wanted;
    if (this.#count >= wanted) this.#reached.resolve();
    return this.#reached.promise;
  }
}
