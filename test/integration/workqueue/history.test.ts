import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { TestProcess } from '../../harness/process.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { CHAIN_LENGTH, HistoryProcess, type RunRecord } from './history-process.ts';

const KEYS = Array.from({ length: 50 }, (_, at) => `ns/k${at}`);
const CHAINS = Array.from({ length: 20 }, (_, at) => `chain/k${at}`);
const ADDS = 20_000;
const seed = newSeed();

let fixture: RedisQueueFixture;
let other: TestProcess | undefined;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
});

afterEach(async () => {
  await other?.kill();
  await fixture.close();
});

it(`keeps its promises through ${ADDS} adds of ${KEYS.length} keys on two processes (TEST_SEED=${seed})`, async () => {
  const random = randomOf(seed);
  const records: RunRecord[] = [];
  const here = await fixture.open({ concurrency: 12 });
  await here.start(new HistoryProcess(randomOf(seed + 1), (record) => records.push(record)));
  other = new TestProcess(
    'test/integration/workqueue/gateway-process.ts',
    [
      inject('redisUrl'),
      JSON.stringify(fixture.scope),
      JSON.stringify({ seed: seed + 2, concurrency: 12, timeoutMs: 15_000, mode: 'history' }),
    ],
    {},
  );
  await other.line(({ msg }) => msg === 'started');

  const lastAdd = new Map<string, number>();
  const someKey = (): string => KEYS[Math.floor(random() * KEYS.length)] ?? '';
  let added = 0;
  // Added once: what runs them again and again is their own wish, and nothing covers up for a wish that got lost.
  await here.add(CHAINS.map((key) => ({ key, reasons: [] })));
  while (added < ADDS) {
    // A burst: many adds at a time, of few keys or of many, some of them while their keys run.
    const hot = random() < 0.3 ? [someKey(), someKey()] : undefined;
    const apart = random() < 0.4;
    const size = 1 + Math.floor(random() * (apart ? 25 : 100));
    const keys = Array.from({ length: size }, () => hot?.[Math.floor(random() * hot.length)] ?? someKey());
    const at = machineMs();
    for (const key of keys) lastAdd.set(key, at);
    if (apart) await Promise.all(keys.map((key) => here.add([{ key, reasons: [{ type: 'manual' }] }])));
    else if (random() < 0.2) await here.addLow(keys, 'initial');
    else await here.add(keys.map((key) => ({ key, reasons: [] })));
    added += size;
    if (random() < 0.5) await sleep(Math.floor(random() * 12));
  }
  await eventually(async () => expect(await fixture.pending()).toBe(0), 20_000, 50);
  // Nothing more comes: a timer of the future would have been counted.
  const elsewhere = other.lines.filter((line) => 'key' in line) as unknown as RunRecord[];
  const runs = [...records, ...elsewhere].toSorted((a, b) => a.startMs - b.startMs);
  expect(records.length).toBeGreaterThan(100);
  expect(elsewhere.length).toBeGreaterThan(100);

  for (const key of [...KEYS, ...CHAINS]) {
    const own = runs.filter((run) => run.key === key);
    own.forEach((run, at) => {
      const next = own[at + 1];
      // Never two at a time, and later runs have higher numbers.
      if (next) expect(run.endMs, `${key} run ${run.run} and ${next.run}`).toBeLessThan(next.startMs);
      if (next) expect(run.run).toBeLessThan(next.run);
      // What a run asked for came, at its time at the latest; how late depends on the machine.
      if (run.againAfterMs !== undefined) expect(next, `${key} after run ${run.run}`).toBeDefined();
      if (run.againAfterMs !== undefined && next) {
        expect(next.startMs - run.endMs - run.againAfterMs).toBeLessThan(5000);
      }
    });
    const last = lastAdd.get(key);
    if (last !== undefined) expect(own.at(-1)?.startMs, `the last add of ${key}`).toBeGreaterThanOrEqual(last);
  }
  for (const key of CHAINS) expect(runs.filter((run) => run.key === key).length, key).toBeGreaterThan(CHAIN_LENGTH);
  expect(fixture.troubles).toEqual([]);
  // Nothing remembers the keys, but for the failures of late.
  const names = (await fixture.names()).filter((name) => !name.startsWith('history:'));
  expect(names.filter((name) => !name.startsWith('controller:'))).toEqual(['queue', 'runs']);
}, 60_000);
