import { setTimeout as sleep } from 'node:timers/promises';
import { MEMORY_VARIABLES } from '../../src/cli/child.ts';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { createSetting, type Listening, startFunctionProcess, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { TestProcess } from '../harness/process.ts';
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
const DIST = process.env['BENCH_DIST'] === '1';

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
  const note = (name: string, value: number): unknown => {
    const values = figures.get(name) ?? [];
    figures.set(name, values);
    return values.push(value);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    // A key prefix of its own: to this gateway the Redis is a fresh one.
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    const functionFromMs = machineMs();
    const stamper = started.keep(
      await startFunctionProcess(setting, 'test/bench/line/levelhook/function.ts', {
        variables: { BENCH_NAMESPACE: namespace, BENCH_OBJECTS: `${OBJECTS}`, BENCH_CONCURRENCY: '50' },
      }),
    );
    note('function: listens, s', (machineMs() - functionFromMs) / 1000);

    const fromMs = machineMs();
    const gateway = started.keep(await startGateway(setting, stamper.url));
    note('gateway: first line, s', (machineMs() - fromMs) / 1000);
    const seen = stamper.process.line(({ msg }) => msg === 'seen all');
    await untilReady(gateway.url);
    note('gateway: ready, s', (machineMs() - fromMs) / 1000);
    note('gateway: each object has run, s', (Number((await seen)['atMs']) - fromMs) / 1000);
    note('gateway: processor time until then, s', cpuSeconds(gateway.process.pid));
    await sleep(IDLE_MS);
    note('gateway: idle, MB', residentMemory(gateway.process.pid) / MB);
    note('gateway: peak, MB', peakMemory(gateway.process.pid) / MB);
    note('function: idle, MB', residentMemory(stamper.process.pid) / MB);
    await gateway.process.kill('SIGTERM');
    await stamper.process.kill('SIGTERM');
  }
  for (const [name, values] of figures) {
    console.log(`${name}: ${median(values).toFixed(2)} (${values.map((value) => value.toFixed(2)).join(', ')})`);
  }

  async function startGateway(
    { redisUrl, keyPrefix, secret, kubeconfig }: ReturnType<typeof createSetting>,
    functionUrl: string,
  ): Promise<Listening> {
    const script = DIST ? 'dist/src/cli/levelhook.js' : 'src/cli/levelhook.js';
    const process = new TestProcess(script, ['gateway', '--kubeconfig', kubeconfig, '--port', '0'], {
      ...MEMORY_VARIABLES,
      REDIS_URL: redisUrl,
      LEVELHOOK_KEY_PREFIX: keyPrefix,
      LEVELHOOK_SIGNING_SECRETS: secret,
      LEVELHOOK_FUNCTIONS: functionUrl,
      LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    });
    const line = await process.line(({ msg }) => msg === 'listening');
    return { process, url: String(line['url']) };
  }
} finally {
  await started.stop();
}
