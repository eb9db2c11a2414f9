import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { replayDeadLetters } from '../../../src/gateway/controller/workqueue/records/dead-letters.ts';
import type { WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { TestProcess } from '../../harness/process.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { CHAIN_LENGTH, type RunEvent } from './history-process.ts';
import { RunLog } from './run-log.ts';

const KEYS = Array.from({ length: 50 }, (_, at) => `ns/k${at}`);
const CHAINS = Array.from({ length: 20 }, (_, at) => `chain/k${at}`);
/** `QUEUE_ADDS` for the long variant. */
const ADDS = Number(process.env['QUEUE_ADDS'] ?? 20_000);
/** Something happens to a process after about so many adds. */
const FAULT_EVERY = 2000;
const TIMEOUT_MS = 1500;
const seed = newSeed();

let redis: RedisServer;
let fixture: RedisQueueFixture;
const gateways: TestProcess[] = [];

beforeEach(async () => {
  redis = await startRedis({ ignoreEnvironment: true, appendOnly: true });
  fixture = await RedisQueueFixture.create(redis.url, systemClock);
});

afterEach(async () => {
  for (const gateway of gateways) await gateway.kill();
  await fixture.close();
  await redis.stop();
});

it(`keeps its promises through ${ADDS} adds, killed and stalled gateways and restarts of Redis (TEST_SEED=${seed})`, async () => {
  const random = randomOf(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const someKey = (): string => KEYS[below(KEYS.length)] ?? '';
  const log = new RunLog();
  const lastAdd = new Map<string, number>();
  const faults = { killed: 0, stalled: 0, restarted: 0, replayed: 0 };
  const queue = await fixture.open({ timeoutMs: TIMEOUT_MS, concurrency: 12 });

  let opened = 0;
  const openGateway = async (): Promise<void> => {
    const options = { seed: seed + (opened += 1), concurrency: 12, timeoutMs: TIMEOUT_MS, mode: 'history' };
    const args = [redis.url, JSON.stringify(fixture.scope), JSON.stringify(options)];
    const gateway = new TestProcess('test/integration/workqueue/gateway-process.ts', args, {});
    gateways.push(gateway);
    await gateway.line(({ msg }) => msg === 'started');
  };
  const readLogs = (): void => {
    for (const { lines } of gateways) {
      for (const line of lines.splice(0)) if ('event' in line) log.add(line as unknown as RunEvent);
    }
  };
  const fault = async (): Promise<void> => {
    const gateway = gateways.find(({ alive }) => alive);
    switch (below(4)) {
      case 0:
        faults.killed += 1;
        await gateway?.kill('SIGKILL');
        return openGateway();
      case 1:
        // Past its locks, and past its runs' deadlines: when it goes on, others have taken over.
        faults.stalled += 1;
        gateway?.send('SIGSTOP');
        await sleep(3500);
        gateway?.send('SIGCONT');
        return;
      case 2:
        faults.restarted += 1;
        await redis.kill();
        await sleep(below(300));
        return redis.start();
      default:
        faults.replayed += await replayDeadLetters(queue, { all: true });
    }
  };

  await openGateway();
  await openGateway();
  // Added once: what runs them again and again is their own wish, and nothing covers up for a wish that got lost.
  await queue.add(CHAINS.map((key) => ({ key, reasons: [] })));
  let nextFault = below(FAULT_EVERY);
  for (let added = 0; added < ADDS;) {
    // A burst: many adds at a time, of few keys or of many, some of them while their keys run.
    const hot = random() < 0.3 ? [someKey(), someKey()] : undefined;
    const size = 1 + below(100);
    const keys = Array.from({ length: size }, () => hot?.[below(hot.length)] ?? someKey());
    const atMs = machineMs();
    for (const key of keys) lastAdd.set(key, atMs);
    await addSomehow(queue, keys, random);
    added += size;
    if (added > nextFault) {
      await fault();
      nextFault = added + below(2 * FAULT_EVERY);
    }
    if (random() < 0.5) await sleep(below(12));
    readLogs();
  }
  await eventually(async () => expect(await fixture.pending()).toBe(0), 120_000, 100);
  await sleep(200);
  readLogs();
  process.stdout.write(`${log.count} runs, ${JSON.stringify(faults)}\n`);

  log.check();
  for (const [key, atMs] of lastAdd) {
    expect(log.runsOf(key).at(-1)?.startMs, `the last add of ${key}`).toBeGreaterThanOrEqual(atMs);
  }
  for (const key of CHAINS) expect(log.used(key), key).toBeGreaterThan(CHAIN_LENGTH);
  // Nothing remembers the keys, but for the history and the dead letters.
  const dead = (await queue.inspector.list('dead', { offset: 0, limit: 1000 })).keys.map(({ key }) => `key:${key}`);
  const names = (await fixture.names()).filter(
    (name) => !/^(history|histories|controller|taken)(:|$)/.test(name) && !dead.includes(name),
  );
  expect(names.filter((name) => name !== 'dead' && name !== 'samples')).toEqual(['queue', 'recent', 'runs']);
}, 7_200_000);

async function addSomehow(queue: WorkQueue, keys: readonly string[], random: () => number): Promise<void> {
  const chance = random();
  if (chance < 0.3) await Promise.all(keys.map((key) => queue.add([{ key, reasons: [{ type: 'manual' }] }])));
  else if (chance < 0.45) await queue.addLow(keys, 'initial');
  else if (chance < 0.5) await Promise.all(keys.map((key) => queue.addAfter(key, Math.floor(random() * 500))));
  else await queue.add(keys.map((key) => ({ key, reasons: [] })));
}
