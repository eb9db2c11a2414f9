import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { compareResourceVersions, formatObjectKey, type KubernetesObject } from '../../src/core/index.ts';
import { decodeEntry, viewKeys } from '../../src/contract/cache-layout.ts';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { untilCacheEqualsServer, viewsOf } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps, type ListOf } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { type Observer, openObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

const INDEX = 'field:data.group';
const KINDS = [{ resource: configMaps, indexes: [INDEX] }] as const;

/** A gateway and its observer, with a cache of their own. */
interface Line {
  readonly setting: Setting;
  readonly observer: Observer;
  gateway: Listening;
  /** The version of its view before etcd was restored, and how often the observer had run. */
  before: { readonly version: string; readonly runs: number };
}

/**
 * Three gateways over the same objects, so that one restore does for three states that a gateway may be in. The world
 * of `gateway-faults` cannot have it, since what its changes take for acknowledged is taken back.
 */
describe('after etcd was restored to an older state, the cache is repaired and nothing is lost', () => {
  const started = new Started();
  const namespace = uniqueName('restored');
  let plane: ControlPlane;
  let cluster: Cluster;
  let redis: Redis;
  let objects: ObservedConfigMaps;
  let running: Line;
  let away: Line;
  let overtaken: Line;
  /** Of the object that was changed most, in the cache of the gateway that runs. */
  let ahead: string;
  let restored: ListOf<KubernetesObject>;

  beforeAll(async () => {
    plane = await startControlPlane();
    started.add(() => plane.stop());
    cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    redis = new Redis(inject('redisUrl'));
    started.add(async () => redis.disconnect());
    await cluster.createNamespace(namespace);
    objects = new ObservedConfigMaps(cluster, namespace);
    for (const name of ['kept', 'changed', 'deleted', 'remade', 'ahead']) await objects.create(name, 'a');
    [running, away, overtaken] = await Promise.all([startLine(), startLine(), startLine()]);
    const [data, backup] = ['etcd', 'etcd-backup'].map((name) => join(plane.directory, name)) as [string, string];
    await whileDown(() => cp(data, backup, { recursive: true }));

    // What the backup does not know: a change, a deletion, a new object, one made again, and one changed many times.
    await objects.change('changed', 'b');
    await objects.delete('deleted');
    await objects.create('forgotten', 'b');
    await objects.change('ahead', 'b');
    await untilCaughtUp(overtaken);
    await kill(overtaken);
    await objects.delete('remade');
    await objects.create('remade', 'b');
    // The writes that the apiserver makes by itself at its start must not be enough to catch up.
    for (let at = 0; at < 10; at += 1) {
      await Promise.all(Array.from({ length: 10 }, (_, lane) => objects.change('ahead', `turn ${at} ${lane}`)));
    }
    await Promise.all([untilCaughtUp(running), untilCaughtUp(away)]);
    await kill(away);
    ahead = await cachedVersion(running, 'ahead');

    await whileDown(async () => {
      await rm(data, { recursive: true, force: true });
      await cp(backup, data, { recursive: true });
    });
    restored = await cluster.list(configMaps, namespace);
  });

  afterAll(() => started.stop());

  async function startLine(): Promise<Line> {
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    const indexes = [{ resource: configMaps, index: INDEX }] as const;
    const spec = { name: 'observer', for: configMaps, indexes, timeoutSeconds: 5 };
    const observer = started.keep(await openObserver(setting, spec));
    const line: Line = { setting, observer, gateway: await start(setting, observer), before: { version: '', runs: 0 } };
    await untilCaughtUp(line);
    return line;
  }

  async function start(setting: Setting, observer: Observer): Promise<Listening> {
    const gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
    return gateway;
  }

  /** Until it has seen what there is, which is noted as its state before the restore. */
  async function untilCaughtUp(line: Line): Promise<void> {
    await objects.untilSeen([line.observer]);
    await untilCacheEqualsServer(line.setting, cluster, KINDS, 60_000);
    const { view } = viewKeys(await prefixOf(line));
    line.before = { version: (await redis.hget(view, 'version')) ?? '', runs: line.observer.count };
  }

  async function kill({ gateway }: Line): Promise<void> {
    await gateway.process.kill('SIGKILL');
  }

  async function whileDown(change: () => Promise<void>): Promise<void> {
    await plane.kill('kube-apiserver');
    await plane.kill('etcd', 'SIGTERM');
    await change();
    await plane.start('etcd');
    await plane.start('kube-apiserver');
  }

  async function prefixOf({ setting }: Line): Promise<string> {
    const [view] = await viewsOf(setting, cluster, KINDS[0]);
    return view?.prefix ?? '';
  }

  async function cachedVersion(line: Line, name: string): Promise<string> {
    const entry = await redis.hget(viewKeys(await prefixOf(line)).entries, formatObjectKey({ namespace, name }));
    return decodeEntry(entry ?? '').resourceVersion;
  }

  const isBehind = (version: string, { before }: Line): boolean => compareResourceVersions(version, before.version) < 0;

  async function expectRepaired({ setting, observer, gateway, before }: Line): Promise<void> {
    await untilCacheEqualsServer(setting, cluster, KINDS, 120_000);
    await objects.untilSeen([observer], before.runs);
    await objects.untilSeenGone(observer, 'forgotten');
    await untilReady(gateway.url);
    await objects.change('kept', uniqueName('z'));
    await objects.create(uniqueName('afterwards'), 'z');
    await objects.untilSeen([observer], before.runs);
    await untilCacheEqualsServer(setting, cluster, KINDS);
  }

  it('while the gateway runs', async () => {
    const version = restored.items.find(({ metadata }) => metadata.name === 'ahead')?.metadata.resourceVersion ?? '';
    expect(isBehind(restored.metadata.resourceVersion, running), 'the server is behind').toBe(true);
    expect(compareResourceVersions(version, ahead), 'the cache is ahead').toBeLessThan(0);
    await expectRepaired(running);
  });

  it('while the gateway was away', async () => {
    const { metadata } = await cluster.list(configMaps, namespace);
    expect(isBehind(metadata.resourceVersion, away), 'the server is behind').toBe(true);
    away.gateway = await start(away.setting, away.observer);
    await expectRepaired(away);
  });

  it("while the gateway was away, and the server has caught up with the view's version since", async () => {
    await eventually(
      async () => {
        const { metadata } = await objects.change('kept', uniqueName('caught-up'));
        expect(compareResourceVersions(metadata.resourceVersion, overtaken.before.version)).toBeGreaterThan(0);
      },
      60_000,
      0,
    );
    overtaken.gateway = await start(overtaken.setting, overtaken.observer);
    await expectRepaired(overtaken);
  });
});
