import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, silentLogger } from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { GatewayWriter } from '../../../src/gateway/informer/cache/gateway-writer.ts';
import { Informers } from '../../../src/gateway/informer/cache/informers.ts';
import type { ViewSettings } from '../../../src/ground/config/cache-file.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import { type CachedKind, untilCacheEqualsServer, viewsOf } from '../../harness/cache-equals-server.ts';
import { Cluster, configMaps, pods, replicaSet } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObservers } from '../../harness/observer.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { TestProcess } from '../../harness/process.ts';
import type { Program } from '../../harness/program.ts';

const secrets = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'Secret');

describe('what is cached is a setting', () => {
  const [one, two, other] = [uniqueName('one'), uniqueName('two'), uniqueName('other')];
  let cluster: Cluster;
  let redis: Redis;
  let directory: string;
  let setting: Setting;
  let processes: Program[] = [];

  beforeAll(async () => {
    cluster = await Cluster.connect(inject('kubeconfig'));
    redis = new Redis(inject('redisUrl'));
    directory = await mkdtemp(join(tmpdir(), 'levelhook-settings-'));
    for (const namespace of [one, two, other]) await cluster.createNamespace(namespace);
  });

  afterEach(async () => {
    for (const process of processes) await process.kill('SIGTERM');
    processes = [];
  });

  afterAll(async () => {
    for (const namespace of [one, two, other]) await cluster?.deleteNamespace(namespace);
    redis?.disconnect();
    await cluster?.close();
    await rm(directory, { recursive: true, force: true });
  });

  /** A gateway with these settings for one kind, and observers over it. */
  async function start(kind: CachedKind['resource'], settings: ViewSettings, count = 1): Promise<Observer[]> {
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const specs = Array.from({ length: count }, (_, at) => ({ name: `observer-${at}`, for: kind, timeoutSeconds: 60 }));
    const observers = await openObservers(setting, specs);
    processes.push(...observers.map(({ process }) => process));
    await startWith(kind, settings, observers);
    return observers;
  }

  async function startWith(
    kind: CachedKind['resource'],
    settings: ViewSettings,
    observers: readonly Observer[],
  ): Promise<Opened> {
    const file = join(directory, `${uniqueName('cache')}.yaml`);
    await writeFile(
      file,
      `# A comment, so that it is not JSON.\nkinds:\n  ${kind.apiVersion}/${kind.kind}: ${JSON.stringify(settings)}\n`,
    );
    const gateway = await openGateway(
      setting,
      observers.map(({ url }) => url),
      { LEVELHOOK_CACHE_FILE: file },
    );
    processes.push(gateway.process);
    await untilReady(gateway.url);
    await untilIdle(gateway.url);
    return gateway;
  }

  async function reader(kind: CachedKind): Promise<RedisReader> {
    const { apiVersion, kind: name } = kind.resource;
    return new RedisReader(redis, { views: { [`${apiVersion}/${name}`]: await viewsOf(setting, cluster, kind) } });
  }

  const keysSeen = (observer: Observer | undefined, from = 0): Set<string> =>
    new Set(observer?.seen({ from }).map(({ key }) => key));

  const names = (items: readonly KubernetesObject[]): string[] => items.map(({ metadata }) => metadata.name).toSorted();

  it('two namespaces: a view of each, and nothing of any other', async () => {
    const name = 'here';
    for (const namespace of [one, two, other]) await cluster.create(configMaps, { metadata: { namespace, name } });
    const settings = { namespaces: [one, two] };
    const kind = { resource: configMaps, settings };
    const [observer] = await start(configMaps, settings);
    await untilCacheEqualsServer(setting, cluster, [kind]);
    const later = { namespace: two, name: 'later' };
    await cluster.create(configMaps, { metadata: { namespace: other, name: 'later' } });
    await cluster.create(configMaps, { metadata: later });
    await eventually(async () => expect(observer?.seen({ key: `${two}/later` })).toHaveLength(1));

    const root = 'kube-root-ca.crt';
    const wanted = new Set([`${one}/${name}`, `${one}/${root}`, `${two}/${name}`, `${two}/${root}`, `${two}/later`]);
    await eventually(async () => expect(keysSeen(observer)).toEqual(wanted));
    expect(await viewsOf(setting, cluster, kind)).toHaveLength(2);
    const cache = await reader(kind);
    expect(names((await cache.list(configMaps)).items)).toEqual([name, name, root, root, 'later'].toSorted());
    expect(names((await cache.list(configMaps, { namespace: one })).items)).toEqual([name, root]);
    expect((await cache.list(configMaps, { namespace: other })).items).toEqual([]);
    expect(await cache.get(configMaps, { namespace: two, name })).toMatchObject({ metadata: { namespace: two } });
    expect(await cache.get(configMaps, { namespace: other, name })).toBeUndefined();
    expect(await cache.get(configMaps, { namespace: one, name: 'nobody' })).toBeUndefined();
  });

  it('a label selector: an object that leaves it is deleted, one that enters it is added', async () => {
    const settings = { namespaces: [one], labelSelector: 'tier=front' };
    const [inside, outside] = ['inside', 'outside'];
    await cluster.create(configMaps, { metadata: { namespace: one, name: inside, labels: { tier: 'front' } } });
    await cluster.create(configMaps, { metadata: { namespace: one, name: outside, labels: { tier: 'back' } } });
    const [observer] = await start(configMaps, settings);
    const kind = { resource: configMaps, settings };
    await untilCacheEqualsServer(setting, cluster, [kind]);
    await eventually(async () => expect(keysSeen(observer)).toEqual(new Set([`${one}/${inside}`])));
    await cluster.patch(configMaps, { namespace: one, name: inside }, { metadata: { labels: { tier: 'back' } } });
    await cluster.patch(configMaps, { namespace: one, name: outside }, { metadata: { labels: { tier: 'front' } } });
    await eventually(async () => {
      const last = (name: string) => observer?.seen({ key: `${one}/${name}` }).at(-1);
      expect(last(inside)).toMatchObject({ resourceVersion: null, reasons: [{ type: 'deleted' }] });
      expect(last(outside)).toMatchObject({ reasons: [{ type: 'added' }] });
    });
    await untilCacheEqualsServer(setting, cluster, [kind]);
  });

  it('a field selector: pods that have a node', async () => {
    const settings = { namespaces: [one], fieldSelector: 'spec.nodeName!=' };
    const { spec } = replicaSet({ namespace: one, name: 'x' }, 1).spec.template;
    await eventually(() =>
      cluster.create(pods, { metadata: { namespace: one, name: 'bound' }, spec: { ...spec, nodeName: 'somewhere' } }),
    );
    await cluster.create(pods, { metadata: { namespace: one, name: 'unbound' }, spec });
    const [observer] = await start(pods, settings);
    await untilCacheEqualsServer(setting, cluster, [{ resource: pods, settings }]);
    await eventually(async () => expect(keysSeen(observer)).toEqual(new Set([`${one}/bound`])));
  });

  it('metadata only, for two controllers: objects without data, with their own kind', async () => {
    const settings = { namespaces: [one], metadataOnly: true };
    const made = await cluster.create(secrets, {
      metadata: { namespace: one, name: 'key' },
      data: { password: 'c2VjcmV0' },
    });
    const observers = await start(secrets, settings, 2);
    const kind = { resource: secrets, settings };
    await untilCacheEqualsServer(setting, cluster, [kind]);
    const cached = await (await reader(kind)).get(secrets, { namespace: one, name: 'key' });
    expect(cached).toMatchObject({ apiVersion: 'v1', kind: 'Secret', metadata: { uid: made.metadata.uid } });
    expect(Object.keys(cached ?? {}).toSorted()).toEqual(['apiVersion', 'kind', 'metadata']);
    const changed = await cluster.patch(secrets, { namespace: one, name: 'key' }, { data: { password: 'b3RoZXI=' } });
    for (const observer of observers) {
      await eventually(async () => {
        expect(observer.seen({ key: `${one}/key` }).at(-1)).toMatchObject({
          resourceVersion: changed.metadata.resourceVersion,
        });
      });
    }
    await untilCacheEqualsServer(setting, cluster, [kind]);
    // Nothing of the contents has been near Redis.
    const [view] = await viewsOf(setting, cluster, kind);
    const texts = await redis.hvals(viewKeys(view?.prefix ?? '').objects);
    expect(texts.join()).not.toMatch(/c2VjcmV0|b3RoZXI/);
  });

  it('other settings: the view is listed anew, the keys of the old one go', async () => {
    await cluster.create(configMaps, { metadata: { namespace: two, name: 'fat' }, data: { large: 'x', small: 'y' } });
    const before = { namespaces: [two] };
    const [observer] = await start(configMaps, before);
    const [old] = await viewsOf(setting, cluster, { resource: configMaps, settings: before });
    const cached = await (
      await reader({ resource: configMaps, settings: before })
    ).get(configMaps, { namespace: two, name: 'fat' });
    // Dropped by default, and nothing else is.
    expect(cached).toMatchObject({ data: { large: 'x', small: 'y' } });
    expect(cached?.metadata).not.toHaveProperty('managedFields');

    await processes.at(-1)?.kill('SIGTERM');
    const after = { namespaces: [two], drop: ['metadata.managedFields', 'data.large'] };
    const from = observer?.count;
    await startWith(configMaps, after, observer ? [observer] : []);
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps, settings: after }]);
    const now = await (
      await reader({ resource: configMaps, settings: after })
    ).get(configMaps, { namespace: two, name: 'fat' });
    expect(now).toMatchObject({ data: { small: 'y' } });
    expect(now).not.toHaveProperty('data.large');
    expect(await redis.keys(`${old?.prefix}:*`)).toEqual([]);
    // Another view: whoever reads it starts over.
    await eventually(async () => expect(keysSeen(observer, from)).toContain(`${two}/fat`));
  });

  it('a file that is wrong is refused in one sentence', async () => {
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const wrong = {
      'kinds: { v1/Pod: { namespace: [web] } }': /Unrecognized key.*namespace/,
      'kinds: { Pod: {} }': /must be apiVersion\/Kind/,
      'defaults: { drop: [metadata.uid] }': /must leave the fields/,
      'defaults: [': /cannot be read/,
    };
    const refusals = Object.entries(wrong).map(async ([text, message]) => {
      const file = join(directory, `${uniqueName('wrong')}.yaml`);
      await writeFile(file, text);
      const process = new TestProcess(
        'src/cli/levelhook.js',
        ['gateway', '--kubeconfig', setting.kubeconfig, '--port', '0'],
        {
          REDIS_URL: setting.redisUrl,
          LEVELHOOK_CACHE_FILE: file,
          LEVELHOOK_LOG_LEVEL: 'error',
        },
      );
      expect(await process.exited).toBe(1);
      const said = process.lines.filter((line) => 'text' in line || Number(line['level']) >= 50);
      expect(said, process.output).toHaveLength(1);
      expect(process.output).toMatch(message);
      expect(process.output).toContain(file);
    });
    await Promise.all(refusals);
  });

  it('informers are shared, and go with their view when the last user has gone', async () => {
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const clusterId = await clusterIdentity(cluster.client);
    const { keyPrefix } = setting;
    const writer = new GatewayWriter({ logger: silentLogger, onReplaced: () => {} });
    writer.begin(new AbortController().signal);
    const informers = new Informers({
      client: cluster.client,
      location: redisLocation(redis, keyPrefix, clusterId),
      settings: { defaults: { namespaces: [one, two] }, kinds: {} },
      writer,
      listeners: {
        enqueue: async () => {},
        onHandlerError: () => {},
        lookupBudget: () => undefined,
        onUndeliverable: () => {},
        onViewChanged: () => {},
      },
      runtime: quietRuntime(),
    });
    const kind = { resource: configMaps, settings: { namespaces: [one, two] } };
    const ensure = async (user: string) => {
      const found = await informers.ensure(configMaps, user);
      for (const informer of found) {
        await informer.setHandlers(user, []);
        await informer.begin();
      }
      return found;
    };
    try {
      const first = await ensure('first');
      expect(await ensure('second')).toBe(first);
      expect(informers.all()).toHaveLength(2);
      await untilCacheEqualsServer(setting, cluster, [kind]);
      await informers.release('first');
      expect(informers.all()).toEqual(first);
      await cluster.create(configMaps, { metadata: { namespace: one, name: 'released' } });
      await untilCacheEqualsServer(setting, cluster, [kind]);
      await informers.release('second');
      expect(informers.all()).toEqual([]);
      expect(await redis.keys(`{${keyPrefix}:*`)).toEqual([]);

      // Wanted again before it is all removed: the new view is not the one that goes.
      const again = await ensure('third');
      await Promise.all(again.map((informer) => informer.waitForSync(AbortSignal.timeout(20_000))));
      const releasing = informers.release('third');
      const anew = await ensure('fourth');
      await releasing;
      await Promise.all(anew.map((informer) => informer.waitForSync(AbortSignal.timeout(20_000))));
      await untilCacheEqualsServer(setting, cluster, [kind]);
    } finally {
      await informers.stop();
    }
  });
});
