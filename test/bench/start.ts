import { setTimeout as sleep } from 'node:timers/promises';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { createSetting, startFunctionProcess, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { Started } from '../harness/started.ts';
import { median } from './median.ts';
import { cpuSeconds, peakMemory, residentMemory } from './process-figures.ts';

/**
 * What a start costs: seconds from the start of the gateway's process to its first line, to a run of each of 100
 * objects and to /readyz, its processor time until then, and the memory of gateway and function after ten idle seconds.
 * `npm run bench start`. `BENCH_OBJECTS` sets the number of objects, `BENCH_ROUNDS` sets the number of rounds (5),
 * `BENCH_DIST=1` runs what `npm run build` made.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 100);
const IDLE_MS = 10_000;
const MB = 1e6;
const SCRIPT = process.env['BENCH_DIST'] === '1' ? 'dist/src/cli/levelhook.js' : 'src/cli/levelhook.js';

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const redis = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const plane = await startControlPlane({ onProgress });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const namespace = uniqueName('start');
  await cluster.createNamespace(namespace);
  for (let at = 0; at < OBJECTS; at += 1) {
    await cluster.create(configMaps, { metadata: { namespace, name: `object-${at}` }, data: {} });
  }

  const figures = new Map<string, number[]>();
  const record = (name: string, value: number): unknown => {
    const values = figures.get(name) ?? [];
    figures.set(name, values);
    return values.push(value);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    // Each round has its own key prefix, so that its gateway finds no data in Redis.
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    const functionFromMs = machineMs();
    const stamper = started.keep(
      await startFunctionProcess(setting, 'test/bench/line/levelhook/function.ts', {
        variables: { BENCH_NAMESPACE: namespace, BENCH_OBJECTS: `${OBJECTS}`, BENCH_CONCURRENCY: '50' },
      }),
    );
    record('function: listens, s', (machineMs() - functionFromMs) / 1000);

    const fromMs = machineMs();
    const gateway = started.keep(
      await startGateway(setting, [stamper.url], { LEVELHOOK_LOG_TRIGGERS: 'false' }, SCRIPT),
    );
    record('gateway: first line, s', (machineMs() - fromMs) / 1000);
    const seen = stamper.process.line(({ msg }) => msg === 'seen all');
    await untilReady(gateway.url);
    record('gateway: ready, s', (machineMs() - fromMs) / 1000);
    record('gateway: each object has run, s', (Number((await seen)['atMs']) - fromMs) / 1000);
    record('gateway: processor time until then, s', cpuSeconds(gateway.process.pid));
    await sleep(IDLE_MS);
    record('gateway: idle, MB', residentMemory(gateway.process.pid) / MB);
    record('gateway: peak, MB', peakMemory(gateway.process.pid) / MB);
    record('function: idle, MB', residentMemory(stamper.process.pid) / MB);
    await gateway.process.kill('SIGTERM');
    await stamper.process.kill('SIGTERM');
  }
  for (const [name, values] of figures) {
    console.log(`${name}: ${median(values).toFixed(2)} (${values.map((value) => value.toFixed(2)).join(', ')})`);
  }
} finally {
  await started.stop();
}
