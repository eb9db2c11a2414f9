import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import {
  createSetting,
  type Listening,
  startFunctionProcess,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { Started } from '../harness/started.ts';
import { Comparison } from './comparison.ts';
import { createObjects } from './line/parts.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { cpuSeconds, privateMemory, residentMemory } from './process-figures.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * One, two and three replicas of a gateway, in turn: all keys of a controller whose function waits 50 ms, 200 at a time
 * over all replicas, and then what each replica uses without work. `npm run bench replicas`; `BENCH_OBJECTS` and
 * `BENCH_ROUNDS` make it smaller.
 */
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 5000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const CONCURRENCY = 200;
const TOKEN = 'token-of-the-benchmark';
const IDLE_MS = 1000 * Number(process.env['BENCH_SECONDS'] ?? 10);
/** Until a new process has compiled what it needs, and given memory back. */
const SETTLE_MS = Math.min(20_000, 5 * IDLE_MS);
const COUNTS = [1, 2, 3];
const nameOf = (count: number): string => (count === 1 ? 'one replica' : `${count} replicas`);

const found = new Comparison(
  COUNTS.map(nameOf),
  [
    { label: 'keys a second', figures: ['rate'], panel: 'Keys a second', main: true },
    { label: 'CPU of a key, all replicas, ms', figures: ['cpuMs'], main: true },
    { label: 'a replica that follows, without work: % of a processor', figures: ['idle.cpu'] },
    { label: 'a replica that follows, without work: memory, MB', figures: ['idle.memory'] },
    { label: 'of it private, MB: not the pages of files, such as the executable', figures: ['idle.private'] },
  ],
  { subject: nameOf(3), to: [nameOf(1)] },
);

const started = new Started();
stopAtSignal(started);
try {
  const plane = await startControlPlane();
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const namespace = uniqueName('replicas');
  await cluster.createNamespace(namespace);
  await createObjects({ cluster, namespace, count: OBJECTS });
  // Kubernetes' own, which every namespace has.
  const { items } = await cluster.list(configMaps, namespace);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let at = 0; at < COUNTS.length; at += 1) {
      const count = COUNTS[(at + round) % COUNTS.length] ?? 1;
      const machine = measureMachine();
      const figures = await measure(count, { kubeconfig: plane.kubeconfig, namespace, objects: items.length });
      const load = machine();
      found.add(nameOf(count), { ...figures, 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
      process.stderr.write(`round ${round + 1}, ${nameOf(count)}: ${JSON.stringify(figures)}, ${formatLoad(load)}\n`);
    }
  }
} finally {
  await started.stop();
}
const what =
  `${OBJECTS.toLocaleString('en')} keys, ${CONCURRENCY} runs of 50 ms at a time, medians of ${ROUNDS} rounds, ` +
  `Node ${process.versions.node}, ${availableParallelism()} processors.`;
await showResults('replicas', 'One, two and three replicas', what, found);

async function measure(
  count: number,
  { kubeconfig, namespace, objects }: { kubeconfig: string; namespace: string; objects: number },
): Promise<Readonly<Record<string, number>>> {
  const own = new Started();
  started.add(() => own.stop());
  try {
    const redis = await startRedis({ ignoreEnvironment: true });
    own.add(() => redis.stop());
    const setting = createSetting({ kubeconfig, redisUrl: redis.url });
    const fn = own.keep(
      await startFunctionProcess(setting, 'test/bench/replicas/function.ts', {
        variables: {
          BENCH_NAMESPACE: namespace,
          BENCH_OBJECTS: `${objects}`,
          BENCH_CONCURRENCY: `${CONCURRENCY}`,
        },
      }),
    );
    const gateways: Listening[] = [];
    for (let replica = 0; replica < count; replica += 1) {
      const gateway = own.keep(
        await startGateway(setting, [fn.url], {
          LEVELHOOK_LOG_TRIGGERS: 'false',
          LEVELHOOK_API_TOKENS: TOKEN,
          LEVELHOOK_LEASE: `${namespace}/${setting.keyPrefix}`,
        }),
      );
      await untilReady(gateway.url);
      gateways.push(gateway);
    }
    const [leader] = gateways;
    if (!leader) throw new Error('no gateway');
    const rounds = (): number => fn.process.lines.filter(({ msg }) => msg === 'all').length;
    while (rounds() < 1) await sleep(100);
    await untilIdle(leader.url);
    const cpu = (): number => gateways.reduce((sum, { process }) => sum + cpuSeconds(process.pid), 0);
    const [from, cpuFrom] = [machineMs(), cpu()];
    const answer = await fetch(`${leader.url}/reconcile`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ controller: 'waiter', all: true }),
    });
    if (!answer.ok) throw new Error(await answer.text());
    while (rounds() < 2) await sleep(10);
    const all = fn.process.lines.filter(({ msg }) => msg === 'all').at(-1);
    const seconds = (Number(all?.['atMs']) - from) / 1000;
    const figures: Record<string, number> = {
      rate: objects / seconds,
      cpuMs: (1000 * (cpu() - cpuFrom)) / objects,
    };
    const follower = gateways[1];
    if (follower) {
      await untilIdle(leader.url);
      await sleep(SETTLE_MS);
      const idleFrom = cpuSeconds(follower.process.pid);
      await sleep(IDLE_MS);
      figures['idle.cpu'] = (100 * (cpuSeconds(follower.process.pid) - idleFrom)) / (IDLE_MS / 1000);
      figures['idle.memory'] = residentMemory(follower.process.pid) / 1e6;
      figures['idle.private'] = privateMemory(follower.process.pid) / 1e6;
    }
    return figures;
  } finally {
    await own.stop();
  }
}
