import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { declaredIndex, viewKeys } from '../../../src/contract/cache-layout.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import { untilCacheEqualsServer, viewsOf } from '../../harness/cache-equals-server.ts';
import { Cluster, configMaps, pods, type ReplicaSet, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  createSetting,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import { type Observation, type Observer, type ObserverSpec, startObserver } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';
import { defineWebs } from '../../harness/webs.ts';

const services = resource<KubernetesObject & { spec: object }>('v1', 'Service');
const INDEX = 'field:data.uses';

describe('events of real objects', () => {
  const started = new Started();
  let cluster: Cluster;
  let redis: Redis;
  let namespace: string;
  let setting: Setting;
  let gateway: { process: TestProcess; url: string };
  let observers: Observer[] = [];

  beforeAll(async () => {
    cluster = await Cluster.connect(inject('kubeconfig'));
    redis = new Redis(inject('redisUrl'));
  });

  beforeEach(async () => {
    namespace = uniqueName('events');
    await cluster.createNamespace(namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  });

  afterEach(async () => {
    await gateway?.process.kill('SIGTERM');
    for (const { process } of observers) await process.kill('SIGTERM');
    observers = [];
    await cluster.deleteNamespace(namespace);
  });

  afterAll(async () => {
    await started.stop();
    redis?.disconnect();
    await cluster?.close();
  });

  async function observe(spec: ObserverSpec): Promise<Observer> {
    const observer = await startObserver(setting, { timeoutSeconds: 60, ...spec });
    observers.push(observer);
    return observer;
  }

  /** A gateway is ready before it has queued the keys of what is there. */
  async function untilAllHaveRun(observer: Observer, count: number): Promise<void> {
    await eventually(async () => expect(namesOf(observer, 0).size).toBe(count));
    await untilIdle(gateway.url);
  }

  async function start(variables: Record<string, string> = {}): Promise<void> {
    gateway = await startGateway(
      setting,
      observers.map(({ url }) => url),
      variables,
    );
    await untilReady(gateway.url);
    await untilIdle(gateway.url);
  }

  const configMap = (name: string, data: Record<string, string> = {}) =>
    cluster.create(configMaps, { metadata: { namespace, name }, data });

  /** Runs since the `from`th, of this test's namespace: names and what set each off. */
  function runs(
    observer: Observer,
    from: number,
  ): { name: string; types: string[]; objects: (string | undefined)[] }[] {
    return observer
      .seen({ from })
      .filter(({ key }) => key.startsWith(`${namespace}/`))
      .map(({ key, reasons }) => ({
        name: key.slice(namespace.length + 1),
        types: reasons.map(({ type }) => type),
        objects: reasons.map(({ object }) => object),
      }));
  }

  const namesOf = (observer: Observer, from: number): Set<string> =>
    new Set(runs(observer, from).map(({ name }) => name));

  function last(observer: Observer, name: string): Observation | undefined {
    return observer.seen({ key: `${namespace}/${name}` }).at(-1);
  }

  it('are an add, an update or a delete, with their version, and nothing without a change', async () => {
    const observer = await observe({ name: 'kinds', for: configMaps });
    await configMap('quiet');
    await start();
    const object = `v1/ConfigMap ${namespace}/one`;
    const [made] = [await configMap('one')];
    const added = { type: 'added', object, resourceVersion: made.metadata.resourceVersion };
    await eventually(async () => expect(last(observer, 'one')?.reasons).toEqual([added]));
    const changed = await cluster.patch(configMaps, { namespace, name: 'one' }, { data: { a: 'b' } });
    const updated = { type: 'updated', object, resourceVersion: changed.metadata.resourceVersion };
    await eventually(async () => expect(last(observer, 'one')?.reasons).toEqual([updated]));
    await cluster.delete(configMaps, { namespace, name: 'one' });
    await eventually(async () => {
      expect(last(observer, 'one')).toMatchObject({ resourceVersion: null, reasons: [{ type: 'deleted', object }] });
    });
    // The object of before the gateway's start has been looked at once, and never since.
    expect(observer.seen({ key: `${namespace}/quiet` })).toMatchObject([{ reasons: [{ type: 'initial' }] }]);
  });

  it('of an object replaced while the gateway is away are a delete and an add; of one unchanged there are none', async () => {
    const { webs } = await defineWebs(started, cluster, `${namespace}.levelhook.test`);
    const web = (name: string) => cluster.create(webs, { metadata: { namespace, name } });
    const observer = await observe({ name: 'replaced', for: webs });
    const old = await web('same-name');
    await web('unchanged');
    await start();
    const from = observer.count;
    await gateway.process.kill('SIGKILL');
    await cluster.delete(webs, { namespace, name: 'same-name' });
    const made = await web('same-name');
    // No version to resume from: the view has to be listed again, and all of a replacement shows at once. Of its own
    // kinds a new apiserver has all events since version 1, but not of one that was defined later.
    const [view] = await viewsOf(setting, cluster, { resource: webs });
    await redis.hset(viewKeys(view?.prefix ?? '').view, 'version', '1');
    await start();
    await eventually(async () => expect(last(observer, 'same-name')?.uid).toBe(made.metadata.uid));
    await untilCacheEqualsServer(setting, cluster, [{ resource: webs }]);
    expect(old.metadata.uid).not.toBe(made.metadata.uid);
    expect(runs(observer, from)).toMatchObject([{ name: 'same-name', types: ['deleted', 'added'] }]);
  });

  it('of an owned object wake its owner, and when that changes the old one and the new one', async () => {
    const observer = await observe({ name: 'owners', for: replicaSets, owns: [pods] });
    const owners = new Map<string, ReplicaSet>();
    for (const name of ['first', 'second', 'third']) {
      owners.set(name, await cluster.create(replicaSets, replicaSet({ namespace, name }, 0)));
    }
    await start();
    const references = (name: string) => [
      { apiVersion: 'apps/v1', kind: 'ReplicaSet', name, uid: owners.get(name)?.metadata.uid, controller: true },
    ];
    const { spec } = replicaSet({ namespace, name: 'x' }, 1).spec.template;
    let from = observer.count;
    const pod = { namespace, name: 'pod' };
    await eventually(() => cluster.create(pods, { metadata: { ...pod, ownerReferences: references('first') }, spec }));
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['first'])));
    expect(runs(observer, from)[0]?.objects).toContain(`v1/Pod ${namespace}/pod`);

    from = observer.count;
    await cluster.patch(pods, pod, { metadata: { ownerReferences: references('second') } });
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['first', 'second'])));
    from = observer.count;
    await cluster.patch(pods, pod, { metadata: { ownerReferences: null } });
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['second'])));
    from = observer.count;
    await cluster.patch(pods, pod, { metadata: { ownerReferences: references('third') } });
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['third'])));
    from = observer.count;
    await cluster.delete(pods, pod);
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['third'])));
  });

  it('of a labelled object wake the objects that select it, before or after a change of labels', async () => {
    const observer = await observe({
      name: 'selectors',
      for: services,
      watches: [{ resource: configMaps, map: { by: 'selector', path: 'spec.selector' } }],
    });
    for (const app of ['a', 'b', 'c']) {
      await cluster.create(services, {
        metadata: { namespace, name: app },
        spec: { selector: { app }, ports: [{ port: 80 }] },
      });
    }
    await cluster.create(services, { metadata: { namespace, name: 'none' }, spec: { ports: [{ port: 80 }] } });
    await start();
    await untilAllHaveRun(observer, 4);
    const key = { namespace, name: 'labelled' };
    const steps: [() => Promise<unknown>, string[]][] = [
      [() => cluster.create(configMaps, { metadata: { ...key, labels: { app: 'a' } } }), ['a']],
      [() => cluster.patch(configMaps, key, { metadata: { labels: { app: 'b' } } }), ['a', 'b']],
      [() => cluster.patch(configMaps, key, { data: { other: 'field' } }), ['b']],
      [() => cluster.patch(configMaps, key, { metadata: { labels: { app: null } } }), ['b']],
      [() => cluster.patch(configMaps, key, { metadata: { labels: { app: 'c' } } }), ['c']],
      [() => cluster.delete(configMaps, key), ['c']],
    ];
    for (const [step, woken] of steps) {
      const from = observer.count;
      await step();
      await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(woken)));
      await untilIdle(gateway.url);
      expect(namesOf(observer, from)).toEqual(new Set(woken));
    }
  });

  it('of a named object wake exactly those that name it, one made in the same moment included', async () => {
    // ReplicaSets that name a ConfigMap in an annotation, which is an index of its own kind.
    const observer = await observe({
      name: 'referrers',
      for: replicaSets,
      watches: [{ resource: configMaps, map: { by: 'index', index: 'annotation:uses' } }],
    });
    const user = (name: string, uses: string) => {
      const made = replicaSet({ namespace, name }, 0);
      return cluster.create(replicaSets, { ...made, metadata: { ...made.metadata, annotations: { uses } } });
    };
    await configMap('x');
    await configMap('y');
    await user('uses-x', 'x');
    await user('uses-x-too', 'x');
    await user('uses-y', 'y');
    await start();
    await untilAllHaveRun(observer, 3);
    let from = observer.count;
    await cluster.patch(configMaps, { namespace, name: 'x' }, { data: { a: '1' } });
    await eventually(async () => expect(namesOf(observer, from)).toEqual(new Set(['uses-x', 'uses-x-too'])));
    await untilIdle(gateway.url);
    expect(namesOf(observer, from)).toEqual(new Set(['uses-x', 'uses-x-too']));
    for (let round = 0; round < 20; round += 1) {
      from = observer.count;
      const [, changed] = await Promise.all([
        user(`same-moment-${round}`, 'y'),
        cluster.patch(configMaps, { namespace, name: 'y' }, { data: { round: String(round) } }),
      ]);
      // Whichever comes first: its own event or the ConfigMap's; never neither.
      await eventually(async () => {
        expect(namesOf(observer, from)).toContain(`same-moment-${round}`);
        const reasons = observer.seen({ from, key: `${namespace}/uses-y` }).flatMap((each) => each.reasons);
        expect(reasons).toContainEqual(expect.objectContaining({ resourceVersion: changed.metadata.resourceVersion }));
      });
    }
  });

  it('come again from the cache after the period, at low priority; the next time outlives the gateway', async () => {
    const observer = await observe({ name: 'resync', for: { resource: configMaps, namespaces: [namespace] } });
    await configMap('again');
    const key = `${namespace}/again`;
    const resyncs = (): Observation[] =>
      observer.seen({ key }).filter(({ reasons }) => reasons.some(({ type }) => type === 'resync'));
    const beganMs = Date.now();
    await start({ LEVELHOOK_RESYNC_HOURS: String(2 / 3600) });
    await eventually(async () => expect(resyncs().length).toBeGreaterThanOrEqual(2));
    for (const { reasons } of resyncs()) expect(reasons).toEqual([{ type: 'resync' }]);
    // One in two seconds at most. A run may start late, and the next one in time.
    const { length } = resyncs();
    expect(length).toBeLessThanOrEqual((Date.now() - beganMs) / 2000 + 1);

    await untilIdle(gateway.url);
    await gateway.process.kill('SIGKILL');
    const clusterId = await clusterIdentity(cluster.client);
    const { queue } = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, 'resync');
    const planned = Number(await redis.hget(queue, 'resyncAt'));
    expect(planned).toBeGreaterThan(0);
    // A gateway with a long period keeps to the time that was planned, and plans the next by its own.
    const before = resyncs().length;
    await start({ LEVELHOOK_RESYNC_HOURS: '10' });
    await eventually(async () => expect(resyncs().length).toBeGreaterThan(before));
    expect(resyncs().at(-1)?.startedAtMs).toBeGreaterThanOrEqual(planned);
    const next = Number(await redis.hget(queue, 'resyncAt')) - Date.now();
    expect(next).toBeGreaterThan(9.9 * 3_600_000);
    expect(next).toBeLessThan(11 * 3_600_000);
  });

  it('go on while an index is declared, filled, used and withdrawn; readers are right at every moment', async () => {
    const GROUPS = 5;
    for (let at = 0; at < 100; at += 10) {
      await Promise.all(
        Array.from({ length: 10 }, (_, lane) => configMap(`c-${at + lane}`, { uses: `g${(at + lane) % GROUPS}` })),
      );
    }
    // A view that is full already, of a controller that needs no index.
    await observe({ name: 'plain', for: configMaps });
    await start();
    await gateway.process.kill();
    const views = await viewsOf(setting, cluster, { resource: configMaps });
    const keys = viewKeys(views[0]?.prefix ?? '');
    const cache = new RedisReader(redis, { views: { 'v1/ConfigMap': views } });
    const index = (value: string) => ({ spec: INDEX, value }) as const;
    const complete = async (): Promise<boolean> => ((await redis.hget(keys.view, 'indexes')) ?? '').includes(INDEX);

    /** What the index answers must be what a look at all objects answers, when nothing changed between the two. */
    let compared = 0;
    async function right(): Promise<boolean> {
      for (let group = 0; group < GROUPS; group += 1) {
        const value = `g${group}`;
        const version = await redis.hget(keys.view, 'version');
        const all = await cache.list(configMaps);
        const found = await cache.list(configMaps, { namespace, index: index(value) });
        if ((await redis.hget(keys.view, 'version')) !== version) continue;
        const wanted = all.items.filter(
          ({ data, metadata }) => metadata.namespace === namespace && data?.['uses'] === value,
        );
        const names = (items: KubernetesObject[]): string[] => items.map(({ metadata }) => metadata.name).toSorted();
        expect(names(found.items)).toEqual(names(wanted));
        compared += 1;
      }
      return complete();
    }

    await observe({ name: 'indexed', for: configMaps, indexes: [{ resource: configMaps, index: INDEX }] });
    const stop = new AbortController();
    const churn = (async () => {
      for (let at = 0; !stop.signal.aborted; at += 1) {
        const name = `c-${at % 100}`;
        await cluster.patch(configMaps, { namespace, name }, { data: { uses: `g${at % GROUPS}`, id: randomUUID() } });
        // Two looks fit between two changes.
        await sleep(20);
      }
    })();
    try {
      const starting = startGateway(
        setting,
        observers.map(({ url }) => url),
      );
      try {
        while (!(await right()));
      } finally {
        gateway = await starting;
      }
      expect(compared).toBeGreaterThan(GROUPS);
      compared = 0;
      while (compared < 5 * GROUPS) await right();
    } finally {
      stop.abort();
      await churn;
    }
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps, indexes: [INDEX] }]);
    await right();
    // It is the index that answers, and not a look at all objects.
    const [member] = await redis.smembers(keys.indexPrefix + declaredIndex(INDEX, 'g1'));
    await redis.srem(keys.indexPrefix + declaredIndex(INDEX, 'g1'), member ?? '');
    const { items } = await cache.list(configMaps, { index: index('g1') });
    expect(items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).not.toContain(member);
    await redis.sadd(keys.indexPrefix + declaredIndex(INDEX, 'g1'), member ?? '');

    // Nobody declares it any more: it is withdrawn, and its SETs go.
    await gateway.process.kill();
    await observers.pop()?.process.kill('SIGTERM');
    await start();
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps }]);
  });

  it('leave nothing of an index whose filling was cut off, and which nobody declares any more', async () => {
    await configMap('left', { uses: 'g1' });
    await observe({ name: 'plain', for: configMaps });
    await start();
    await gateway.process.kill('SIGKILL');
    // As a gateway leaves it that was killed between two objects of a backfill.
    const [view] = await viewsOf(setting, cluster, { resource: configMaps });
    const keys = viewKeys(view?.prefix ?? '');
    const [key, entry] = [`${namespace}/left`, declaredIndex(INDEX, 'g1')];
    await redis
      .multi()
      .hset(keys.view, 'filling', JSON.stringify([INDEX]))
      .hset(keys.entries, key, `${await redis.hget(keys.entries, key)}\n${entry}`)
      .sadd(keys.indexPrefix + entry, key)
      .exec();
    await start();
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps }]);
  });
});
