import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import {
  controller,
  type ControllerOptions,
  type KubernetesObject,
  matchesLabels,
  type RelatedSource,
  resource,
} from 'levelhook/function';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

const serviceAccounts = resource('v1', 'ServiceAccount');
const KINDS = { ConfigMap: configMaps, ServiceAccount: serviceAccounts } as const;

interface PutBody {
  readonly labels?: Readonly<Record<string, string>>;
  readonly data?: Readonly<Record<string, string>>;
}

/** A rule as the data of a parent has it. */
type Rule = Omit<RelatedSource, 'resource'> & { readonly kind: keyof typeof KINDS };

const PARENT = { matchLabels: { role: 'parent' } };
const PARENTS = 6;
const CHILDREN = 8;
const ROUNDS = Number(process.env['RELATED_ROUNDS'] ?? 3);

/** How the kinds are declared, and whether they are known before a run names them. */
const MODES: Readonly<Record<string, Pick<ControllerOptions, 'watches' | 'relatedKinds'>>> = {
  'of declared kinds': {
    watches: [
      { resource: configMaps, map: { by: 'related' } },
      { resource: serviceAccounts, map: { by: 'related' } },
    ],
  },
  'of any kind': { relatedKinds: 'any' },
};

describe.each(Object.entries(MODES))('the related objects %s that runs name', (mode, declared) => {
  const namespace = uniqueName('related');
  const started = new Started();
  /** What the last run of each parent has seen: its related objects with their versions. */
  const seen = new Map<string, readonly string[]>();
  let runs = 0;
  let cluster: Cluster;
  let setting: Setting;
  let redis: Redis;
  let fn: ServedFunction;
  let random: Random;
  let gateways: Listening[] = [];

  const dependent = controller({
    name: 'dependent',
    for: { resource: configMaps, namespaces: [namespace], labelSelector: PARENT },
    ...declared,
    timeoutSeconds: 3,
    concurrency: 4,
  }).reconcile(async ({ name }, { cache, related }) => {
    runs += 1;
    const parent = await cache.get(configMaps, { namespace, name });
    if (!parent) {
      seen.delete(name);
      return;
    }
    const rules = rulesOf(parent);
    const found = await Promise.all(
      rules.map(async (rule) => {
        const { items } = await cache.list(KINDS[rule.kind], { namespace }).catch(noneUnlessCached);
        return items.filter((object) => matches(rule, object)).map((object) => describeObject(rule.kind, object));
      }),
    );
    // Time for changes that come before the rule.
    await sleep(random.between(0, 30));
    seen.set(name, [...new Set(found.flat())].toSorted());
    related(rules.map(({ kind, ...rule }) => ({ ...rule, resource: KINDS[kind] })));
  });

  beforeAll(async () => {
    random = seededRandom(`related-objects ${mode}`);
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const server = await startRedis({ ignoreEnvironment: true });
    started.add(() => server.stop());
    redis = await connectRedis(server.url);
    started.add(async () => redis.disconnect());
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: server.url });
    fn = await started.open(new ServedFunction(dependent, setting));
    gateways = [await start(), await start()];
  });

  afterAll(() => started.stop());

  async function start(): Promise<Listening> {
    const gateway = started.keep(
      await startGateway(setting, [fn.url], {
        LEVELHOOK_LEASE: `${namespace}/levelhook`,
        LEVELHOOK_LEASE_SECONDS: '4',
        LEVELHOOK_LEASE_RENEW_SECONDS: '3',
        LEVELHOOK_LEASE_RETRY_SECONDS: '1',
      }),
    );
    await untilReady(gateway.url);
    return gateway;
  }

  const put = async (kind: keyof typeof KINDS, name: string, { labels = {}, ...rest }: PutBody): Promise<void> => {
    if (random.below(4) === 0) await remove(kind, name);
    const [of, key] = [KINDS[kind], { namespace, name }];
    if (await cluster.get(of, key)) await cluster.patch(of, key, { metadata: { labels }, ...rest });
    else await cluster.create(of, { metadata: { ...key, labels }, ...rest });
  };

  const remove = async (kind: keyof typeof KINDS, name: string): Promise<void> => {
    if (await cluster.get(KINDS[kind], { namespace, name })) await cluster.delete(KINDS[kind], { namespace, name });
  };

  const putParent = (name: string, rules: readonly Rule[]): Promise<void> =>
    put('ConfigMap', name, { labels: PARENT.matchLabels, data: { rules: JSON.stringify(rules) } });

  /** What the last run of each parent should have seen. */
  async function expected(): Promise<Record<string, readonly string[]>> {
    const [maps, accounts] = [
      await cluster.list(configMaps, namespace),
      await cluster.list(serviceAccounts, namespace),
    ];
    const objects = { ConfigMap: maps.items, ServiceAccount: accounts.items };
    const parents = maps.items.filter(({ metadata }) => matchesLabels(PARENT, metadata.labels));
    return Object.fromEntries(
      parents.map((parent) => {
        const found = rulesOf(parent).flatMap((rule) =>
          objects[rule.kind].filter((each) => matches(rule, each)).map((each) => describeObject(rule.kind, each)),
        );
        return [parent.metadata.name, [...new Set(found)].toSorted()];
      }),
    );
  }

  const untilAllSeen = (limitMs = 60_000): Promise<void> =>
    eventually(async () => {
      const wanted = await expected();
      // Redis may have lost that there was a parent that is gone.
      expect(Object.fromEntries(Object.keys(wanted).map((name) => [name, seen.get(name)]))).toEqual(wanted);
    }, limitMs);

  it('wake the key that has named them, when they come, change, leave the selection or go', async () => {
    await putParent('first', [
      { kind: 'ConfigMap', names: ['settings'] },
      { kind: 'ServiceAccount', labelSelector: { matchLabels: { part: '1' } } },
    ]);
    await eventually(async () => expect(seen.get('first')).toEqual([]));
    await put('ConfigMap', 'settings', {});
    await put('ServiceAccount', 'one', { labels: { part: '1' } });
    await untilAllSeen();
    expect(seen.get('first')).toHaveLength(2);
    await cluster.patch(configMaps, { namespace, name: 'settings' }, { data: { a: 'b' } });
    await untilAllSeen();
    await cluster.patch(serviceAccounts, { namespace, name: 'one' }, { metadata: { labels: { part: '2' } } });
    await untilAllSeen();
    expect(seen.get('first')).toHaveLength(1);
    await remove('ConfigMap', 'settings');
    await eventually(async () => expect(seen.get('first')).toEqual([]));
    await untilAllSeen();
  });

  it('wake no other key, and none whose object is gone', async () => {
    await putParent('second', [{ kind: 'ConfigMap', names: ['other'] }]);
    await eventually(async () => expect(seen.get('second')).toEqual([]));
    const ofRules = () => redis.hkeys(String(relatedKey));
    const [relatedKey] = await redis.keys('*:related');
    await eventually(async () =>
      expect((await ofRules()).toSorted()).toEqual([`${namespace}/first`, `${namespace}/second`]),
    );
    // A key with a new rule runs once more.
    for (const { url } of gateways) await untilIdle(url);
    const before = runs;
    await put('ConfigMap', 'nothing', {});
    await put('ConfigMap', 'other', {});
    await untilAllSeen();
    expect(seen.get('second')).toHaveLength(1);
    expect(runs - before).toBe(1);
    await remove('ConfigMap', 'first');
    await remove('ConfigMap', 'second');
    await eventually(async () => expect(await ofRules()).toEqual([]));
    await untilAllSeen();
  });

  const randomRule = (): Rule => {
    const kind = random.below(2) === 0 ? 'ConfigMap' : 'ServiceAccount';
    const place = random.below(2) === 0 ? {} : { namespace };
    const child = () => `child-${random.below(CHILDREN)}`;
    if (random.below(2) === 0) return { kind, ...place, names: [child(), child()] };
    return { kind, ...place, labelSelector: { matchLabels: { part: String(random.below(3)) } } };
  };

  const change = async (): Promise<void> => {
    if (random.below(4) === 0) {
      const name = `parent-${random.below(PARENTS)}`;
      if (random.below(6) === 0) return remove('ConfigMap', name);
      return putParent(name, [randomRule(), randomRule()]);
    }
    const kind = random.below(2) === 0 ? 'ConfigMap' : 'ServiceAccount';
    const name = `child-${random.below(CHILDREN)}`;
    if (random.below(5) === 0) return remove(kind, name);
    return put(kind, name, { labels: { part: String(random.below(3)) } });
  };

  const faults = {
    'a gateway is killed': async () => {
      const at = random.below(gateways.length);
      await gateways[at]?.process.kill('SIGKILL');
      gateways[at] = await start();
    },
    'Redis loses all data': async () => {
      await redis.flushall();
    },
  };

  it.for(Object.entries(faults))('are all seen as they are, while %s', { timeout: 300_000 }, async ([, fault]) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const from = runs;
      const progress = { isOver: false };
      const faulty = sleep(random.between(100, 1000))
        .then(fault)
        .finally(() => (progress.isOver = true));
      for (let at = 0; at < 60 || !progress.isOver; at += 1) {
        await change();
        await sleep(random.between(0, 40));
      }
      await faulty;
      await untilAllSeen(90_000);
      expect(runs - from).toBeGreaterThan(0);
    }
  });

  function rulesOf({ data }: { data?: Record<string, string> }): readonly Rule[] {
    return JSON.parse(data?.['rules'] ?? '[]') as readonly Rule[];
  }
});

function matches({ names, labelSelector }: Rule, { metadata }: KubernetesObject): boolean {
  return (names?.includes(metadata.name) ?? true) && matchesLabels(labelSelector ?? {}, metadata.labels);
}

/** As a function does that takes a kind without a cache for one without objects. */
function noneUnlessCached(error: unknown): { items: KubernetesObject[] } {
  if (error instanceof TypeError && error.message.includes('is not cached')) return { items: [] };
  throw error;
}

function describeObject(kind: string, { metadata }: KubernetesObject): string {
  return `${kind} ${metadata.name} ${metadata.resourceVersion}`;
}
