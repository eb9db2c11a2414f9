/**
 * What the dashboard costs with many controllers, keys and dead letters: the time of each page, the commands of Redis
 * that took longer than 5 ms, and the processor time of the gateway while ten overviews are open. `npm run bench
 * dashboard`. `BENCH_CONTROLLERS` (50), `BENCH_WAITING` (100,000 keys over all) and `BENCH_DEAD` (10,000) set the size.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { queueKeys } from '../../src/gateway/workqueue/queue-keys.ts';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { createSetting, startGateway, untilReady } from '../harness/levelhook.ts';
import { startObservers } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';
import { median } from './median.ts';
import { cpuSeconds } from './process-figures.ts';

const CONTROLLERS = Number(process.env['BENCH_CONTROLLERS'] ?? 50);
const WAITING = Number(process.env['BENCH_WAITING'] ?? 100_000);
const DEAD = Number(process.env['BENCH_DEAD'] ?? 10_000);
const ROUNDS = 20;
const SLOW_US = 5000;
const OPEN_PAGES = 10;
const OPEN_MS = 30_000;
const CLUSTER = 'bench';

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const server = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => server.stop());
  const plane = await startControlPlane({ onProgress });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  await cluster.createNamespace('bench');
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: server.url });
  const names = Array.from({ length: CONTROLLERS }, (_, at) => `controller-${at}`);
  const specs = names.map((name) => ({ name, for: configMaps, onlyIn: 'bench', timeoutSeconds: 5 }));
  const observers = await startObservers(setting, specs);
  for (const observer of observers.slice(0, 1)) started.keep(observer);
  const urls = observers.map(({ url }) => url);
  const gateway = started.keep(
    await startGateway(setting, urls, { LEVELHOOK_CLUSTER_ID: CLUSTER, LEVELHOOK_LOG_TRIGGERS: 'false' }),
  );
  await untilReady(gateway.url);

  const redis = new Redis(server.url);
  started.add(async () => redis.disconnect());
  const now = Date.now();
  for (const [at, name] of names.entries()) {
    const { backlog, dead, historyPrefix, recordPrefix, pauses } = queueKeys(
      { keyPrefix: setting.keyPrefix, clusterId: CLUSTER },
      name,
    );
    // Keys of a paused controller stay where they are.
    await redis.hset(pauses, 'controller', now);
    const waiting = Array.from({ length: Math.ceil(WAITING / CONTROLLERS) }, (_, key) => `bench/waiting-${key}`);
    for (let from = 0; from < waiting.length; from += 1000) {
      await redis.zadd(backlog, ...waiting.slice(from, from + 1000).flatMap((key) => [now, key]));
    }
    const letters = Array.from({ length: Math.ceil(DEAD / CONTROLLERS) }, (_, key) => `bench/dead-${key}`);
    const batch = redis.pipeline();
    for (const [number, key] of letters.entries()) {
      const error = `cause ${'abcdefg'[number % 7]} of controller ${at}: object ${key} has ${number} errors`;
      batch.zadd(dead, now - number, key);
      batch.hset(recordPrefix + key, 'dead', now, 'failures', 3);
      batch.lpush(
        historyPrefix + key,
        JSON.stringify({ outcome: 'dead', key, run: number + 1, atMs: now, attempt: 3, tookMs: 5, error }),
      );
    }
    await batch.exec();
  }
  await redis.config('SET', 'slowlog-log-slower-than', SLOW_US);
  await redis.config('SET', 'slowlog-max-len', 1000);

  const paths = {
    overview: '/dashboard',
    controller: '/dashboard/controllers/controller-7?list=backlog',
    search: '/dashboard/controllers/controller-7?list=backlog&name=waiting-1999',
    'dead letters of one': '/dashboard/controllers/controller-7?list=dead',
    key: '/dashboard/controllers/controller-7/keys/bench/dead-5',
    runs: '/dashboard/controllers/controller-7/runs',
    'dead letters, grouped': '/dashboard/dead-letters',
    cache: '/dashboard/views',
  };
  const print = (line: string): boolean => process.stdout.write(`${line}\n`);
  print(`${CONTROLLERS} controllers, ${WAITING} waiting keys, ${DEAD} dead letters; ${ROUNDS} requests each`);
  for (const [name, path] of Object.entries(paths)) {
    await redis.slowlog('RESET');
    const times: number[] = [];
    let bytes = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const from = performance.now();
      const answer = await fetch(gateway.url + path);
      bytes = (await answer.text()).length;
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      times.push(performance.now() - from);
      // Longer than the groups of dead letters are kept.
      if (name.includes('grouped')) await sleep(3100);
    }
    const slow = (await redis.slowlog('GET', 100)) as [number, number, number, string[]][];
    const commands = slow.map(([, , us, [command = '']]) => `${command} ${us} us`).join(', ');
    print(
      `${name}: median ${median(times).toFixed(0)} ms, most ${Math.max(...times).toFixed(0)} ms, ${bytes} characters; ` +
        `commands over 5 ms: ${commands || 'none'}`,
    );
  }

  const { pid } = gateway.process;
  const idle = await cpuOver(pid, OPEN_MS);
  const closing = new AbortController();
  const visits = Array.from({ length: OPEN_PAGES }, async () => {
    while (!closing.signal.aborted) {
      await (await fetch(`${gateway.url}/dashboard`)).text();
      await sleep(5000);
    }
  });
  const open = await cpuOver(pid, OPEN_MS);
  closing.abort();
  await Promise.all(visits);
  print(`processor of the gateway: ${percent(idle)} at rest, ${percent(open)} with ${OPEN_PAGES} open overviews`);
} finally {
  await started.stop();
}

/** The share of one processor that a process uses. */
async function cpuOver(pid: number, ms: number): Promise<number> {
  const from = cpuSeconds(pid);
  await sleep(ms);
  return ((cpuSeconds(pid) - from) * 1000) / ms;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
