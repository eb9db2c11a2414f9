import { setTimeout as sleep } from 'node:timers/promises';
import { controller } from 'levelhook/function';
import { redisCache } from 'levelhook/function/node';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { compareResourceVersions } from '../../src/core/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { ForgetfulRedis } from '../harness/forgetful-redis.ts';
import { createSetting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

const NAMES = Array.from({ length: 12 }, (_, at) => `object-${at}`);
/** Longer than recovery takes. */
const RUN_MS = 5000;
const MORE_MS = 40_000;
const EVERY_MS = 15;
const ROUNDS = Number(process.env['LOST_WRITES_ROUNDS'] ?? 3);

/** What the runs of one controller have read. */
class Reads {
  /** Reads that were older than what their run had seen, or than the event that woke it. */
  readonly older: string[] = [];
  /** Those of runs that went on after a loss: they have read before and after it. */
  acrossLosses = 0;
  refused = 0;
  /** By name, the newest version that was read. */
  readonly newest = new Map<string, string>();
  losses = 0;

  /** A run: it reads its object again and again. */
  async run(name: string, woken: readonly string[], read: () => Promise<string | undefined>): Promise<void> {
    const [untilMs, losses] = [machineMs() + RUN_MS, this.losses];
    let seen = woken.reduce((a, b) => (compareResourceVersions(a, b) < 0 ? b : a), '0');
    let [hasRead, hasReadAcross] = [false, false];
    // A run from before a loss goes on until the cache is whole again, however long that takes.
    const isAcross = (): boolean => hasRead && !hasReadAcross && this.losses > losses;
    while (machineMs() < untilMs || (isAcross() && machineMs() < untilMs + MORE_MS)) {
      const version = await read().catch(() => 'refused');
      if (version === 'refused') this.refused += 1;
      else if (version === undefined || compareResourceVersions(version, seen) < 0) {
        this.older.push(`${name}: ${version} after ${seen}`);
      } else {
        seen = version;
        if (hasRead && this.losses > losses) {
          this.acrossLosses += 1;
          hasReadAcross = true;
        }
        hasRead = true;
        this.newest.set(name, version);
      }
      await sleep(EVERY_MS);
    }
  }
}

const started = new Started();
const namespace = uniqueName('lost-writes');
const reads = { redis: new Reads(), http: new Reads() };
let redis: ForgetfulRedis;
let cluster: Cluster;
let gatewayUrls: readonly string[];

beforeAll(async () => {
  redis = await ForgetfulRedis.start(started);
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
  const urls = Object.entries(reads).map(async ([name, own]) => {
    const source = { resource: configMaps, namespaces: [namespace] };
    const declared = { name, for: source, concurrency: NAMES.length, timeoutSeconds: 60 };
    const fn = controller(declared).reconcile(async (key, { cache }) => {
      // Those of the apiserver's other tests, and of the namespace itself.
      if (key.namespace !== namespace || !NAMES.includes(key.name)) return;
      const woken = key.reasons.flatMap(({ resourceVersion }) => resourceVersion ?? []);
      const read = async () => (await cache.get(configMaps, key))?.metadata.resourceVersion;
      await own.run(key.name, woken, read);
    });
    const cache = name === 'redis' ? redisCache(redis.url) : undefined;
    return (await started.open(new ServedFunction(fn, setting, cache))).url;
  });
  await Promise.all(NAMES.map((name) => cluster.create(configMaps, { metadata: { namespace, name } })));
  const variables = { LEVELHOOK_LEASE: `${namespace}/levelhook`, LEVELHOOK_LOG_TRIGGERS: 'false' };
  const functionUrls = await Promise.all(urls);
  const gateways = [0, 1].map(async () => started.keep(await startGateway(setting, functionUrls, variables)));
  gatewayUrls = (await Promise.all(gateways)).map(({ url }) => url);
  for (const url of gatewayUrls) await untilReady(url);
});

afterAll(() => started.stop());

/** @returns the versions, by name. */
async function changeAll(): Promise<Map<string, string>> {
  const data = { at: String(machineMs()) };
  const changed = NAMES.map((name) => cluster.patch(configMaps, { namespace, name }, { data }));
  return new Map((await Promise.all(changed)).map(({ metadata }) => [metadata.name, metadata.resourceVersion ?? '']));
}

const untilRead = (versions: ReadonlyMap<string, string>): Promise<void> =>
  eventually(
    async () => {
      for (const { newest } of Object.values(reads)) {
        const old = [...versions].filter(
          ([name, least]) => compareResourceVersions(newest.get(name) ?? '0', least) < 0,
        );
        expect(old).toEqual([]);
      }
    },
    120_000,
    5,
  );

it(
  'a run reads nothing older than it has seen, and nothing older than its event, when Redis loses its last writes',
  { timeout: 600_000 },
  async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      // No run is in flight: the next changes begin some.
      for (const url of gatewayUrls) await untilIdle(url);
      const length = await redis.written();
      await untilRead(await changeAll());
      await redis.restart(length, () => {
        for (const each of Object.values(reads)) each.losses += 1;
      });
      await untilRead(await changeAll());
    }
    const { redis: direct, http } = reads;
    process.stdout.write(
      `reads across losses: ${direct.acrossLosses} from Redis (${direct.refused} refused), ${http.acrossLosses} by HTTP (${http.refused} refused)\n`,
    );
    expect({ redis: direct.older, http: http.older }).toEqual({ redis: [], http: [] });
    // Most runs of a round read at least once when the cache is whole again.
    expect(Math.min(direct.acrossLosses, http.acrossLosses)).toBeGreaterThan(NAMES.length);
  },
);
