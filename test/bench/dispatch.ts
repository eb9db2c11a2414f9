import { startRedis } from '../../src/testing/index.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { generateSecret } from '../../src/contract/index.ts';
import { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';
import { bareLoop } from './dispatch/bare-loop.ts';
import { levelhookLine } from './dispatch/levelhook-line.ts';
import type { Line, LineOptions } from './dispatch/line.ts';

/**
 * From a key in the queue to the function's answer, one key in each trigger and in batches, with one gateway, one
 * function and Redis on this machine, beside a bare loop over the same queue library, client, function and signature;
 * in turns, so that both meet the same machine. `npm run bench dispatch`; `BENCH_KEYS`, `BENCH_ROUNDS` and
 * `BENCH_SECONDS` make it shorter.
 */
const KEYS = Number(process.env['BENCH_KEYS'] ?? 20_000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 10);
const RATES = [100, 1000, 3000];
const CONCURRENCY = 50;
/** Lines that a run writes to its log, beside those of a read and a write; and how many lines two functions report. */
const LINES_OF_RUN = 3;
const LOGS = [0, LINES_OF_RUN + 2];
/** The parts of all triggers that are traced. */
const RATIOS = [0.01, 1];

type MakeLine = (options: LineOptions) => Promise<Line>;
const LINES: readonly MakeLine[] = [bareLoop, levelhookLine];
/** As many runs at a time as let a few triggers be under way. */
const BATCHES = [10, 50].map((maxBatch) => ({ maxBatch, concurrency: 4 * maxBatch }));

const started = new Started();
try {
  const redis = await startRedis({ ignoreEnvironment: true });
  started.add(() => redis.stop());
  const secret = generateSecret();
  const startFunction = async (variables: Readonly<Record<string, string>> = {}): Promise<string> => {
    const environment = { LEVELHOOK_SIGNING_SECRETS: secret, PORT: '0', ...variables };
    const fn = new TestProcess('test/bench/dispatch/function.ts', [], environment);
    started.keep({ process: fn });
    return String((await fn.line(({ msg }) => msg === 'listening'))['url']);
  };
  const functionUrl = await startFunction();
  const logging = [];
  for (const reported of LOGS) {
    logging.push(await startFunction({ LINES: String(LINES_OF_RUN), REPORTED: String(reported) }));
  }
  const collector = new TestProcess('test/bench/dispatch/collector.ts', [], {});
  started.keep({ process: collector });
  const collectorUrl = String((await collector.line(({ msg }) => msg === 'listening'))['url']);
  const shared = { redisUrl: redis.url, functionUrl, secret, concurrency: CONCURRENCY };

  const speeds = LINES.map((): number[] => []);
  const batched = BATCHES.map((): { keysPerSecond: number; keysPerTrigger: number }[] => []);
  const logged = LOGS.map((): number[] => []);
  const traced = RATIOS.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, url] of logging.entries()) {
      logged[at]?.push((await throughput(levelhookLine, { ...shared, functionUrl: url })).keysPerSecond);
    }
    for (const [at, make] of LINES.entries()) speeds[at]?.push((await throughput(make, shared)).keysPerSecond);
    for (const [at, ratio] of RATIOS.entries()) {
      const options = { ...shared, traces: { collector: collectorUrl, ratio } };
      traced[at]?.push((await throughput(levelhookLine, options)).keysPerSecond);
    }
    for (const [at, batch] of BATCHES.entries()) {
      batched[at]?.push(await throughput(levelhookLine, { ...shared, ...batch }));
    }
  }
  const [bare = Number.NaN, ours = Number.NaN] = speeds.map((each) => median(each));
  console.log(`queue to answer, single keys, ${CONCURRENCY} at a time, ${KEYS} keys, median of ${ROUNDS} rounds:`);
  console.log(
    `  bare ${bare.toFixed(0)} keys/s, levelhook ${ours.toFixed(0)} keys/s: ${((100 * ours) / bare).toFixed(0)} % (aim: 70 %)`,
  );
  for (const [at, each] of speeds.entries()) {
    console.log(`  ${at === 0 ? 'bare' : 'levelhook'} rounds: ${each.map((one) => one.toFixed(0)).join(', ')}`);
  }
  for (const [at, { maxBatch, concurrency }] of BATCHES.entries()) {
    const speed = median(batched[at]?.map(({ keysPerSecond }) => keysPerSecond) ?? []);
    const size = median(batched[at]?.map(({ keysPerTrigger }) => keysPerTrigger) ?? []);
    console.log(
      `  in batches of ${maxBatch}, ${concurrency} at a time: ${speed.toFixed(0)} keys/s, ${(speed / ours).toFixed(2)} of single; ${size.toFixed(1)} keys in a trigger`,
    );
  }
  const [unreported = Number.NaN, reported = Number.NaN] = logged.map((each) => median(each));
  console.log(
    `  with a read, a write and ${LINES_OF_RUN} lines of log in each run: ${unreported.toFixed(0)} keys/s, and ${reported.toFixed(0)} keys/s with their lines in the results: ${((100 * reported) / unreported).toFixed(0)} % (aim: 95 %)`,
  );
  for (const [at, ratio] of RATIOS.entries()) {
    const speed = median(traced[at] ?? []);
    console.log(
      `  with ${100 * ratio} % of the triggers traced: ${speed.toFixed(0)} keys/s, ${((100 * speed) / ours).toFixed(0)} % of none`,
    );
  }
  for (const perSecond of RATES) {
    for (const make of LINES) {
      const { name, sorted } = await latency(make, shared, perSecond);
      const [p50, p99, max] = [0.5, 0.99, 1].map((share) => percentile(sorted, share).toFixed(1));
      const aim = perSecond === 1000 && make === levelhookLine ? ' (aim: p50 under 2 ms)' : '';
      console.log(
        `add to answer at ${perSecond}/s, ${name}: p50 ${p50} ms, p99 ${p99} ms, max ${max} ms (n=${sorted.length})${aim}`,
      );
    }
    for (const ratio of perSecond === 1000 ? RATIOS : []) {
      const options = { ...shared, traces: { collector: collectorUrl, ratio } };
      const { name, sorted } = await latency(levelhookLine, options, perSecond);
      const [p50, p99] = [0.5, 0.99].map((share) => percentile(sorted, share).toFixed(1));
      console.log(`add to answer at ${perSecond}/s, ${name}: p50 ${p50} ms, p99 ${p99} ms (n=${sorted.length})`);
    }
  }
} finally {
  await started.stop();
}

/** Keys a second, from a full queue to the last answer. */
async function throughput(
  make: MakeLine,
  shared: Omit<LineOptions, 'onDone'>,
): Promise<{ keysPerSecond: number; keysPerTrigger: number }> {
  const seen = new Set<string>();
  const all = Promise.withResolvers<void>();
  const onDone = (key: string): void => {
    seen.add(key);
    if (seen.size === KEYS) all.resolve();
  };
  const line = await make({ ...shared, onDone });
  const keys = Array.from({ length: KEYS }, (_, at) => `default/key-${at}`);
  for (let from = 0; from < KEYS; from += 1000) await line.add(keys.slice(from, from + 1000));
  const startedAt = performance.now();
  await line.start();
  await all.promise;
  const seconds = (performance.now() - startedAt) / 1000;
  await line.stop();
  return { keysPerSecond: KEYS / seconds, keysPerTrigger: KEYS / (line.triggers?.() ?? KEYS) };
}

/**
 * Milliseconds from the add of each key to its answer, while they are added at a steady rate whatever the answers take.
 */
async function latency(make: MakeLine, shared: Omit<LineOptions, 'onDone'>, perSecond: number) {
  const addedAt = new Map<string, number>();
  const sorted: number[] = [];
  const onDone = (key: string): void => {
    const added = addedAt.get(key);
    if (added !== undefined) sorted.push(performance.now() - added);
  };
  const line = await make({ ...shared, onDone });
  await line.start();
  const warmUp = perSecond;
  const count = warmUp + perSecond * SECONDS;
  const startedAt = performance.now();
  for (let at = 0; at < count; at += 1) {
    const wait = startedAt + (at * 1000) / perSecond - performance.now();
    if (wait > 1) await sleep(wait);
    const key = `default/key-${at}`;
    if (at >= warmUp) addedAt.set(key, performance.now());
    line.add([key]).catch((error: unknown) => process.stderr.write(`${String(error)}\n`));
  }
  const limit = performance.now() + 30_000;
  while (sorted.length < perSecond * SECONDS && performance.now() < limit) await sleep(50);
  await line.stop();
  return { name: line.name, sorted: sorted.toSorted((a, b) => a - b) };
}

function median(values: readonly number[]): number {
  return percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
