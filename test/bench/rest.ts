import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { type ControlPlane, startControlPlane, startRedis } from '../../src/testing/index.ts';
import { AuditLog } from '../harness/audit-log.ts';
import { Cluster } from '../harness/cluster.ts';
import {
  commandCalls,
  type FunctionsAtRest,
  sinceThen,
  startFunctionsAtRest,
  sumOf,
} from '../harness/functions-at-rest.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';
import { Comparison } from './comparison.ts';
import { buildOperator } from './line/controller-runtime/build.ts';
import { INSPECTABLE, liveHeap } from './live-heap.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { median } from './median.ts';
import { cpuSeconds, privateMemory, residentMemory } from './process-figures.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * 1,000 functions on one gateway, and ten operators in Go that watch the same kind, all without work, at the same time.
 * `npm run bench rest`; `BENCH_FUNCTIONS`, `BENCH_OPERATORS`, `BENCH_ROUNDS` and `BENCH_SECONDS` make it smaller.
 */
const FUNCTIONS = Number(process.env['BENCH_FUNCTIONS'] ?? 1000);
const OPERATORS = Number(process.env['BENCH_OPERATORS'] ?? 10);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 60);
/** Until the first runs are forgotten: barriers, samples, statuses, and what the compiler has left. */
const SETTLE_MS = Math.min(90_000, 2000 * SECONDS);
const SCRAPES = 10;
const MB = 1e6;
const [GATEWAY, OPERATOR] = [`levelhook, ${FUNCTIONS} functions`, `controller-runtime, ${OPERATORS} operators`];

const found = new Comparison(
  [OPERATOR, GATEWAY],
  [
    { label: 'requests to functions', figures: ['requests'], main: true },
    { label: 'CPU, s in a minute: of all operators; gateway, Redis', figures: ['cpu', 'redis.cpu'], main: true },
    { label: 'of one operator', figures: ['one.cpu'] },
    {
      label: 'memory, MB: of all operators; of gateway and Redis',
      figures: ['memory', 'redis.memory'],
      sum: true,
      panel: 'Memory, MB',
      main: true,
    },
    { label: 'of one operator; gateway, Redis', figures: ['one.memory', 'gateway.memory', 'redis.memory'], main: true },
    { label: 'private memory, MB: of all operators; of the gateway', figures: ['private'], main: true },
    { label: 'heap of the gateway after a collection, MB', figures: ['heap'] },
    { label: 'of Redis: data, MB', figures: ['redis.data'] },
    { label: 'requests to the apiserver in a minute', figures: ['apiserver'], main: true },
    { label: 'Redis commands in a second, with those in scripts', figures: ['commands'], main: true },
    { label: 'connections to Redis', figures: ['connections'] },
    { label: 'all functions registered and run once after, s', figures: ['registered'], main: true },
    { label: 'a scrape of /metrics: ms', figures: ['scrape.ms'], main: true },
    { label: 'CPU of the gateway, ms', figures: ['scrape.cpuMs'] },
    { label: 'KB', figures: ['scrape.kb'] },
    { label: 'Redis commands, with those in scripts', figures: ['scrape.commands'] },
  ],
  { subject: GATEWAY, to: [OPERATOR] },
);

const started = new Started();
stopAtSignal(started);
try {
  const log = await AuditLog.create({ users: ['gateway', 'operator'] });
  started.add(() => log.remove());
  const plane = await startControlPlane({
    users: ['gateway', 'operator'].map((name) => ({ name, groups: ['system:masters'] })),
    apiserverArguments: log.apiserverArguments,
  });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  const redis = await connectRedis(server.url);
  started.add(async () => redis.disconnect());
  const atRest = await startFunctionsAtRest({
    started,
    cluster,
    kubeconfig: plane.kubeconfigFor('gateway'),
    redisUrl: server.url,
    functions: FUNCTIONS,
    variables: { NODE_OPTIONS: INSPECTABLE },
  });
  const operators = await startOperators(plane);
  process.stderr.write(`registered after ${atRest.registeredSeconds.toFixed(1)} s, waiting ${SETTLE_MS / 1000} s\n`);
  await sleep(SETTLE_MS);
  const all = { atRest, operators, redis, redisPid: server.pid ?? 0, log };
  for (let round = 0; round < ROUNDS; round += 1) {
    const machine = measureMachine();
    await measure(all);
    const load = machine();
    found.add(GATEWAY, { 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
    process.stderr.write(`round ${round + 1}: ${formatLoad(load)}\n`);
  }
  found.add(GATEWAY, { registered: atRest.registeredSeconds, heap: (await liveHeap(atRest.gateway.process)) / MB });
} finally {
  await started.stop();
}
const what =
  `One kind (ConfigMaps), no change, medians of ${ROUNDS} times ${SECONDS} s, Node ${process.versions.node}, ` +
  `${availableParallelism()} processors.`;
await showResults('rest', 'Functions and operators at rest', what, found);

interface Measured {
  readonly atRest: FunctionsAtRest;
  readonly operators: readonly TestProcess[];
  readonly redis: Redis;
  readonly redisPid: number;
  readonly log: AuditLog;
}

async function startOperators(plane: ControlPlane): Promise<readonly TestProcess[]> {
  const program = await buildOperator((line) => process.stderr.write(`${line}\n`));
  const operators: TestProcess[] = [];
  for (let at = 0; at < OPERATORS; at += 1) {
    // `TestProcess` puts its first argument where Node has the script.
    const variables = { BENCH_NAMESPACE: 'none', BENCH_OBJECTS: '0', BENCH_CONCURRENCY: '10' };
    const operator = new TestProcess(plane.kubeconfigFor('operator'), [], variables, [program]);
    started.keep({ process: operator });
    operators.push(operator);
    await operator.line(({ msg }) => msg === 'listening');
  }
  return operators;
}

async function measure({ atRest, operators, redis, redisPid, log }: Measured): Promise<void> {
  const { pid } = atRest.gateway.process;
  const perMinute = 60 / SECONDS;
  const sum = (of: (pid: number) => number): number => operators.reduce((total, each) => total + of(each.pid), 0);
  const read = async () => ({
    atMs: machineMs(),
    requests: new Map(Object.entries((await atRest.counts()).requests)),
    cpu: cpuSeconds(pid),
    redisCpu: cpuSeconds(redisPid),
    operatorsCpu: sum(cpuSeconds),
    commands: await commandCalls(redis),
    asked: (await log.requests()).length,
  });
  const before = await read();
  await sleep(SECONDS * 1000);
  const after = await read();
  const seconds = (after.atMs - before.atMs) / 1000;
  const commands = sinceThen(before.commands, after.commands).filter(([name]) => name !== 'info');
  const asked = (await log.requests()).slice(before.asked, after.asked);
  const byUser = (name: string) => asked.filter(({ user }) => user === name);
  const rates = commands.map(([name, calls]) => `${name} ${(calls / seconds).toFixed(1)}`);
  process.stderr.write(`commands a second: ${rates.slice(0, 14).join(', ')}\n`);
  const requests = Map.groupBy(byUser('gateway'), ({ verb, resource }) => `${verb} ${resource}`);
  process.stderr.write(`requests: ${[...requests].map(([name, each]) => `${name} ${each.length}`).join(', ')}\n`);
  const info = await redis.info();
  const number = (field: string): number => Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1]);
  found.add(OPERATOR, {
    cpu: (after.operatorsCpu - before.operatorsCpu) * perMinute,
    'one.cpu': ((after.operatorsCpu - before.operatorsCpu) * perMinute) / OPERATORS,
    memory: sum(residentMemory) / MB,
    'one.memory': median(operators.map((each) => residentMemory(each.pid))) / MB,
    private: sum(privateMemory) / MB,
    apiserver: byUser('operator').length * perMinute,
  });
  found.add(GATEWAY, {
    requests: sumOf(Object.fromEntries(sinceThen(before.requests, after.requests))),
    cpu: (after.cpu - before.cpu) * perMinute,
    'redis.cpu': (after.redisCpu - before.redisCpu) * perMinute,
    memory: residentMemory(pid) / MB,
    'gateway.memory': residentMemory(pid) / MB,
    'redis.memory': residentMemory(redisPid) / MB,
    private: privateMemory(pid) / MB,
    'redis.data': number('used_memory') / MB,
    connections: number('connected_clients') - 1,
    apiserver: byUser('gateway').length * perMinute,
    commands: commands.reduce((total, [, calls]) => total + calls, 0) / seconds,
    ...(await scrape(atRest, redis)),
  });
}

async function scrape({ gateway }: FunctionsAtRest, redis: Redis): Promise<Record<string, number>> {
  const { pid } = gateway.process;
  const times: number[] = [];
  let bytes = 0;
  const [cpuFrom, before] = [cpuSeconds(pid), await commandCalls(redis)];
  for (let at = 0; at < SCRAPES; at += 1) {
    const fromMs = machineMs();
    bytes = (await (await fetch(`${gateway.url}/metrics`)).text()).length;
    times.push(machineMs() - fromMs);
  }
  const commands = sinceThen(before, await commandCalls(redis)).filter(([name]) => name !== 'info');
  return {
    'scrape.ms': median(times),
    'scrape.cpuMs': (1000 * (cpuSeconds(pid) - cpuFrom)) / SCRAPES,
    'scrape.kb': bytes / 1000,
    'scrape.commands': commands.reduce((total, [, calls]) => total + calls, 0) / SCRAPES,
  };
}
