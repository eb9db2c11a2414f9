import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { FullRedis } from '../harness/full-redis.ts';
import { metric, runsOnRecord } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { TestProcess } from '../harness/process.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

/** How long memory is short each time, and how often; 30 and 20 in the long variant. */
const SECONDS = Number(process.env['REDIS_FULL_SECONDS'] ?? 8);
const RUNS = Number(process.env['REDIS_FULL_RUNS'] ?? 1);
/** Keys that wait when memory runs out; as many again as may be in flight are changed beside them. */
const WAITING = 1000;

const started = new Started();
let redis: RedisServer;
let full: FullRedis;
let setting: Setting;

beforeAll(async () => {
  redis = await startRedis({ ignoreEnvironment: true });
  started.add(() => redis.stop());
  full = new FullRedis(redis.url);
  started.add(async () => full.close());
  setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
});

afterAll(() => started.stop());

async function readyz(gatewayUrl: string): Promise<string> {
  const answer = await fetch(`${gatewayUrl}/readyz`);
  return answer.ok ? 'ok' : answer.text();
}

describe('a Redis that evicts keys', () => {
  it('is refused at the start, with one sentence that says what to do', { timeout: 60_000 }, async () => {
    await full.setPolicy('allkeys-lru');
    const gateway = new TestProcess(
      'src/cli/levelhook.js',
      ['gateway', '--kubeconfig', setting.kubeconfig, '--port', '0'],
      { REDIS_URL: redis.url, LEVELHOOK_KEY_PREFIX: setting.keyPrefix, LEVELHOOK_SIGNING_SECRETS: setting.secret },
    );
    started.keep({ process: gateway });
    expect(await gateway.exited).toBe(1);
    const said = gateway.lines.flatMap(({ text }) => (text === undefined ? [] : [text]));
    expect(said, gateway.output).toEqual([
      expect.stringMatching(/^.* cannot be used: maxmemory-policy is allkeys-lru, .*: set it to noeviction\.$/),
    ]);
    await full.setPolicy('noeviction');
  });

  it('makes the gateway not ready within five seconds, until it is put right', { timeout: 120_000 }, async () => {
    const namespace = uniqueName('evicts');
    await started.cluster(inject('kubeconfig'), namespace);
    const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    const fn = started.keep(await startObserver(own, configMapsOf(namespace)));
    const gateway = started.keep(await startGateway(own, [fn.url]));
    await untilReady(gateway.url);
    await full.setPolicy('volatile-ttl');
    await eventually(
      async () => expect(await readyz(gateway.url)).toContain('[-]redis failed: maxmemory-policy'),
      5000,
    );
    expect(await readyz(gateway.url)).toContain('volatile-ttl');
    expect(await metric(gateway.url, 'levelhook_gateway_suspended')).toBe(1);
    await full.setPolicy('noeviction');
    await untilReady(gateway.url, 10_000);
    expect(await metric(gateway.url, 'levelhook_gateway_suspended')).toBe(0);
    const said = gateway.process.lines.filter(({ msg }) => typeof msg === 'string' && msg.startsWith('Redis can'));
    expect(said).toEqual([
      expect.objectContaining({
        msg: 'Redis cannot be used, dispatch is paused',
        reason: expect.stringContaining('volatile-ttl') as string,
      }),
      expect.objectContaining({ msg: 'Redis can be used again, dispatch goes on' }),
    ]);
    await gateway.process.kill('SIGTERM');
  });
});

describe(`a Redis that is out of memory for ${SECONDS} s under ${WAITING} waiting keys`, () => {
  const namespace = uniqueName('full');
  let cluster: Cluster;
  let observer: Observer<TestProcess>;
  let gateway: Awaited<ReturnType<typeof startGateway>>;
  let changes: ConfigMapChanges;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    observer = started.keep(
      await startObserver(setting, {
        ...configMapsOf(namespace),
        for: { resource: configMaps, namespaces: [namespace] },
        timeoutSeconds: 30,
      }),
    );
    gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
    const random = seededRandom('redis-full');
    changes = new ConfigMapChanges(cluster, namespace, { count: WAITING + 100, random, deletions: false });
    await changes.createAll();
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 60_000);
  }, 180_000);

  const depth = (): Promise<number> => metric(gateway.url, 'workqueue_depth', { name: observer.name });

  it.each(Array.from({ length: RUNS }, (_, at) => at + 1))(
    'loses no change, says so meanwhile, and goes on by itself (%d)',
    { timeout: 240_000 + SECONDS * 1000 },
    async () => {
      await full.limit();
      // The function stands still while all objects change, so that their keys wait.
      observer.process.send('SIGSTOP');
      await changes.updateAll();
      await eventually(async () => expect(await depth()).toBeGreaterThanOrEqual(WAITING), 60_000);
      const [waited, refused] = [await depth(), full.refused];

      const said: string[] = [];
      const enough = new AbortController();
      const filling = full.keepFull(enough.signal);
      await eventually(async () => expect(full.refused).toBeGreaterThan(refused));
      observer.process.send('SIGCONT');
      const fullMs = machineMs();
      await changes.keepChanging(10, async () => {
        while (machineMs() < fullMs + SECONDS * 1000) {
          said.push(await readyz(gateway.url));
          await sleep(250);
        }
      });
      enough.abort();
      await filling;
      const isFull = (text: string): boolean => /^\[-\]redis failed: Redis .*(out of|want of) memory/m.test(text);
      expect(said.filter(isFull).length).toBeGreaterThan(said.length / 2);

      const freeMs = machineMs();
      await untilReady(gateway.url);
      const paused = gateway.process.lines.findLast(({ msg }) => msg === 'Redis cannot be used, dispatch is paused');
      expect(paused?.['reason']).toMatch(/out of memory|want of memory/);
      await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 120_000);
      process.stdout.write(
        `redis-full: ${waited} keys waited, ${full.refused - refused} writes refused, all ${changes.acknowledged} changes ` +
          `reconciled ${((machineMs() - freeMs) / 1000).toFixed(1)} s after memory was back\n`,
      );
      await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]), 60_000);
      await eventually(async () => expect(await depth()).toBe(0), 10_000);
      expect(await metric(gateway.url, 'levelhook_queue_oldest_due_seconds')).toBe(0);
    },
  );
});
